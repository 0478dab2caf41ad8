module walrow.invalid/peers

go 1.25.0

require github.com/jackc/pglogrepl v0.0.0-20260401131349-e37c41485510

require (
	github.com/jackc/pgio v1.0.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.9.1 // indirect
	golang.org/x/text v0.35.0 // indirect
)
