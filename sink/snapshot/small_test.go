package snapshot

import (
	"bytes"
	"runtime/metrics"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A small file of a model takes little, whatever it says that it holds, and is refused with its size: 8 MB once took 12 GiB.
func TestModelFilesTakeWhatTheirBytesMay(t *testing.T) {
	const numbers = 64 << 20
	lists := arrow.FixedSizeListOfNonNullable(3, arrow.PrimitiveTypes.Float64)
	schema := arrow.NewSchema([]arrow.Field{{Name: "kind", Type: arrow.BinaryTypes.String}, {Name: "index", Type: arrow.PrimitiveTypes.Int32}, {Name: "eigenvalue", Type: arrow.PrimitiveTypes.Float64}, {Name: "vector", Type: lists}}, nil)
	zeros := memory.NewBufferBytes(make([]byte, 8*numbers))
	flat := array.NewData(arrow.PrimitiveTypes.Float64, numbers, []*memory.Buffer{nil, zeros}, nil, 0, 0)
	rows := numbers / 3
	columns := []arrow.Array{
		array.NewStringData(array.NewData(arrow.BinaryTypes.String, rows, []*memory.Buffer{nil, zeros, memory.NewBufferBytes(nil)}, nil, 0, 0)),
		array.NewInt32Data(array.NewData(arrow.PrimitiveTypes.Int32, rows, []*memory.Buffer{nil, zeros}, nil, 0, 0)),
		array.NewFloat64Data(array.NewData(arrow.PrimitiveTypes.Float64, rows, []*memory.Buffer{nil, zeros}, nil, 0, 0)),
		array.NewFixedSizeListData(array.NewData(lists, rows, []*memory.Buffer{nil}, []arrow.ArrayData{flat}, 0, 0)),
	}
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(schema), ipc.WithZstd())
	if err := w.Write(array.NewRecord(schema, columns, int64(rows))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"Arrow of zeros": stream.Bytes(),
	} {
		before := allocated()
		_, err := ReadFile(bytes.NewReader(file))
		took := allocated() - before
		if most := uint64(72<<20 + 40*len(file)); err == nil || took > most {
			t.Errorf("%s: %d kB allocated %d MiB, at most %d: %v", name, len(file)>>10, took>>20, most>>20, err)
		}
	}
}
