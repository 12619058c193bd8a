module github.com/lca-stream/lca-stream

go 1.26.0
