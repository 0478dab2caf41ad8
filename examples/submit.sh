#!/bin/sh
# Runs stream_to_delta.py on a cluster: submit.sh MASTER LOG LAKE TABLE...
#
# walrow has a native module, and Python cannot load one from a zip file: a wheel in --py-files does
# not work. So each executor gets a directory with walrow and what it needs. The executors' Python
# must be of the version that runs this, and LOG and LAKE must be under the same path everywhere.
set -eu

master=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT

# WALROW: a wheel or a checkout.
python3 -m pip install --quiet --target "$packages/site" \
    "${WALROW:-$here/..}" 'pyarrow>=18' 'pandas>=2.2,<3'
tar -C "$packages/site" -czf "$packages/packages.tar.gz" .

PYTHONPATH="$packages/site${PYTHONPATH:+:$PYTHONPATH}" spark-submit \
    --master "$master" \
    --packages io.delta:delta-spark_4.1_2.13:4.4.0 \
    --archives "$packages/packages.tar.gz#packages" \
    --conf spark.executorEnv.PYTHONPATH=packages \
    "$here/stream_to_delta.py" "$@"
