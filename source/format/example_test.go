package format_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lca-stream/lca-stream/source/format"
)

// A decoder tells Arrow from JSON by the first bytes. What it cannot read has a code, and says what to do.
func Example() {
	decoder, err := format.NewDecoder(format.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for _, value := range []string{
		`{"id": "a7", "x": [0.1, 0.2]}`,
		"{\"id\": \"a7\"}\n{\"id\": 7}\n",
		"id,x\na7,0.1\n",
	} {
		rec, err := decoder.Decode(context.Background(), []byte(value), "")
		var bad *format.Error
		switch {
		case errors.As(err, &bad):
			fmt.Println(bad.Code)
			fmt.Println("   ", bad.Err)
			continue
		case err != nil:
			log.Fatal(err)
		}
		for i, f := range rec.Schema().Fields() {
			fmt.Println(f.Name, f.Type, rec.Column(i))
		}
		rec.Release()
	}
	// Output:
	// id utf8 ["a7"]
	// x fixed_size_list<item: float64, nullable>[2] [[0.1 0.2]]
	// id utf8 ["\"a7\"" "7"]
	// format_unknown
	//     these bytes are of no known format; send an Arrow IPC stream, JSON, Avro, Protobuf or JSON with a schema
}

// A file is read in batches: its own, which are cut where they have too many rows.
func ExampleOpenFile() {
	file, err := format.OpenFile("testdata/files/zstd.parquet", format.FileConfig{MaxRows: 64})
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	for i := range file.Batches() {
		rec, err := file.Read(i)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("batch", i, "has", rec.NumRows(), "of", file.Rows(), "rows")
		rec.Release()
	}
	// Output:
	// batch 0 has 64 of 250 rows
	// batch 1 has 36 of 250 rows
	// batch 2 has 64 of 250 rows
	// batch 3 has 36 of 250 rows
	// batch 4 has 50 of 250 rows
}
