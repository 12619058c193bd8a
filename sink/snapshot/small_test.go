package snapshot

import (
	"archive/zip"
	"bytes"
	"fmt"
	"runtime/metrics"
	"strings"
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

// zipped is an .npz file with a deflated array of zeros, which has that many bytes; its header says rows × 1000 numbers.
func zipped(t *testing.T, rows, numbers int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create(nameNeighbours + ".npy")
	if err != nil {
		t.Fatal(err)
	}
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 1000), }", rows)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	for _, part := range [][]byte{[]byte(npyMagic), {byte(len(header)), 0}, []byte(header), make([]byte, 4*numbers)} {
		if _, err := f.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A small file of a model takes little, whatever it says that it holds, and is refused with its size: 8 MB once took 12 GiB.
func TestModelFilesTakeWhatTheirBytesMay(t *testing.T) {
	const numbers = 64 << 20
	s := example(3, 1, 2, 100)
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
	less := zipped(t, 16<<10, numbers) // than there is, in the directory
	at := bytes.LastIndex(less, []byte("PK\x01\x02"))
	copy(less[at+24:], []byte{0, 0, 1, 0})
	for name, file := range map[string][]byte{
		"npz of zeros":                      zipped(t, numbers/1000, numbers),
		"npz of more numbers than it says":  zipped(t, 1, 8<<20),
		"npz of fewer numbers than it says": zipped(t, numbers, 1000),
		"npz that says less":                less,
		"Arrow of zeros":                    stream.Bytes(),
		"JSON of empty rows":                []byte(`{"neighbours":[[]` + strings.Repeat(",[]", 1<<20) + `]}`),
		"safetensors of a long header":      append([]byte{255, 255, 255, 127, 0, 0, 0, 0}, exported(t, s, FormatSafetensors)[8:]...),
	} {
		before := allocated()
		_, err := Import(bytes.NewReader(file))
		took := allocated() - before
		if most := uint64(72<<20 + 40*len(file)); err == nil || took > most {
			t.Errorf("%s: %d kB allocated %d MiB, at most %d: %v", name, len(file)>>10, took>>20, most>>20, err)
		}
	}
}
