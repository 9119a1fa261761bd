module muster.dev/benchmarks/client

go 1.22
