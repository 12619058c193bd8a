package minibatch_test

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/minibatch"
)

// A producer may reorder and add columns while the stream runs; rows with a null are left out, and
// minibatches close by the number of rows that remain.
func Example() {
	records := []arrow.Record{
		record([]string{"temperature", "pressure"}, `[{"temperature": 20.5, "pressure": 1}, {"temperature": null, "pressure": 2}]`),
		record([]string{"pressure", "humidity", "temperature"}, `[{"temperature": 21, "pressure": 3, "humidity": 0.4}]`),
	}
	features, err := minibatch.ResolveRecord(records[0], nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	batcher := minibatch.NewBatcher(features.Dim(), 2)
	var rows minibatch.Rows
	for offset, rec := range records {
		if err := features.Gather(&rows, rec); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(features.Names, rows.X, rows.Invalid)
		x, ids := rows.AppendValid(nil, nil, minibatch.NewRowIDs("sensors", 0), int64(offset), 0)
		for b := range batcher.Add(x, ids, 0) {
			fmt.Println("minibatch", b.X.RawMatrix().Data)
		}
	}
	// Output:
	// [temperature pressure] [20.5 1 0 0] [none null]
	// [temperature pressure] [21 3] [none]
	// minibatch [20.5 1 21 3]
}

func record(columns []string, rows string) arrow.Record {
	var fields []arrow.Field
	for _, name := range columns {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		panic(err)
	}
	return rec
}
