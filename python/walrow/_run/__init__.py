"""Many tables by one file: `walrow run`."""
