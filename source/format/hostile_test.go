package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// memoryLimit is what one input may allocate: 64 MiB, and what errors, schemas and decompressors
// take in addition.
const memoryLimit = 72 << 20

// allocated is the number of bytes that were ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// decodeHostile decodes and touches every value, and checks what must hold for any bytes at all:
// nothing escapes but an Error, no library panics, and memory is bounded.
func decodeHostile(t testing.TB, d *Decoder, in []byte) error {
	t.Helper()
	rec, err := keepHostile(t, d, in)
	if err == nil {
		rec.Release()
	}
	return err
}

// keepHostile is decodeHostile that returns the record.
func keepHostile(t testing.TB, d *Decoder, in []byte) (arrow.Record, error) {
	t.Helper()
	before := allocated()
	rec, err := d.Decode(t.Context(), in, "")
	if n := allocated() - before; n > memoryLimit {
		t.Errorf("%d bytes allocated for an input of %d", n, len(in))
	}
	if err != nil {
		if de := (*Error)(nil); !errors.As(err, &de) || de.Code == CodeDecodePanic {
			t.Errorf("%v", err)
		}
		return nil, err
	}
	values := 0
	for _, c := range rec.Columns() {
		values += size(c.Data())
	}
	if values < 1<<14 {
		dumpRecord(rec)
	}
	return rec, nil
}

// size is how many values an array has, those of its children included: a few bytes may stand for a million nulls.
func size(a arrow.ArrayData) int {
	n := a.Len()
	for _, child := range a.Children() {
		n += size(child)
	}
	return n
}

// bombs are small inputs that ask for much.
func bombs(t testing.TB) []struct {
	name, code, says string
	in               []byte
} {
	many := func(n, width int) func(f forge) flatbuffers.UOffsetT {
		return func(f forge) flatbuffers.UOffsetT {
			child := f.field(f.b.CreateString(strings.Repeat("n", width)), fbFloat, 1)
			fields := make([]flatbuffers.UOffsetT, n)
			for i := range fields {
				fields[i] = child
			}
			return f.schema(fields...)
		}
	}
	nested := func(depth, fan int, kind int) func(f forge) flatbuffers.UOffsetT {
		return func(f forge) flatbuffers.UOffsetT {
			name := f.b.CreateString("c")
			field := f.field(name, fbFloat, 1)
			for range depth {
				kids := make([]flatbuffers.UOffsetT, fan)
				for i := range kids {
					kids[i] = field
				}
				field = f.field(name, kind, 0, kids...)
			}
			return f.schema(field)
		}
	}
	one := func(rows int64, codec int, nodes, buffers [][2]int64, variadic ...int64) func(f forge) flatbuffers.UOffsetT {
		return func(f forge) flatbuffers.UOffsetT { return f.batch(rows, codec, nodes, buffers, variadic...) }
	}
	float := oneColumn(fbFloat, 1)
	zeros := binary.LittleEndian.AppendUint64(nil, 4<<30)
	liar := zstdBomb(t, 1<<20)
	lz4Liar := lz4Bomb(t, 1<<20)
	nestedDictionary, err := os.ReadFile("testdata/nested_dictionary.arrows")
	if err != nil {
		t.Fatal(err)
	}
	return []struct {
		name, code, says string
		in               []byte
	}{
		{"a dictionary of a dictionary, which pyarrow writes and does not read", CodeArrowInvalid, "dictionary 0 is broken, or its values are a dictionary themselves", nestedDictionary},
		{"1 MB that says it is 4 GB", CodeArrowTooLarge, "4294967296", forged(float, one(10, 1, [][2]int64{{10, 0}}, [][2]int64{{0, 0}, {0, 1 << 20}}), append(zeros, make([]byte, 1<<20-8)...))},
		{"zstd of 4 GB that says it is 1 MB", CodeArrowInvalid, "more bytes than it announces", forged(float, one(10, 1, [][2]int64{{10, 0}}, [][2]int64{{0, 0}, {0, int64(len(liar))}}), liar)},
		{"lz4 of 3 GB that says it is 1 MB", CodeArrowInvalid, "more bytes than it announces", forged(float, one(10, 0, [][2]int64{{10, 0}}, [][2]int64{{0, 0}, {0, int64(len(lz4Liar))}}), lz4Liar)},
		{"2^31 rows of nothing", CodeArrowTooLarge, "2147483648 rows", forged(oneColumn(fbNull, 0), one(1<<31, -1, [][2]int64{{1 << 31, 1 << 31}}, nil), nil)},
		{"2^31 rows of floats", CodeArrowTooLarge, "2147483648 rows", forged(float, one(1<<31, -1, [][2]int64{{1 << 31, 0}}, [][2]int64{{0, 0}, {0, 8}}), make([]byte, 8))},
		{"negative rows", CodeArrowInvalid, "-2 rows", forged(float, one(-2, -1, [][2]int64{{-2, 0}}, [][2]int64{{0, 0}, {0, 8}}), make([]byte, 8))},
		{"2^40 values of a child", CodeArrowInvalid, "1048576", forged(func(f forge) flatbuffers.UOffsetT {
			n := f.b.CreateString("c")
			return f.schema(f.field(n, fbFixedSizeList, 1<<20, f.field(n, fbFloat, 1)))
		}, one(1, -1, [][2]int64{{1, 0}, {1, 0}}, [][2]int64{{0, 0}, {0, 0}, {0, 8}}), make([]byte, 8))},
		{"a child of 2^62 values", CodeArrowTooLarge, "4611686018427387904", forged(func(f forge) flatbuffers.UOffsetT {
			n := f.b.CreateString("c")
			return f.schema(f.field(n, fbList, 0, f.field(n, fbNull, 0)))
		}, one(1, -1, [][2]int64{{1, 0}, {1 << 62, 0}}, [][2]int64{{0, 0}, {0, 8}}), make([]byte, 8))},
		{"a million columns", CodeArrowTooLarge, "8192 fields", forged(many(1e6, 1), nil, nil)},
		{"a long name for all columns", CodeArrowTooLarge, "names and metadata", forged(many(8000, 1<<20), nil, nil)},
		{"nested ten thousand deep", CodeArrowTooLarge, "nested", forged(nested(1e4, 1, fbList), nil, nil)},
		{"2^28 fields by sharing", CodeArrowTooLarge, "8192 fields", forged(nested(28, 2, fbStruct), nil, nil)},
		{"metadata of 2 GiB", CodeArrowTruncated, "2147483647 bytes is announced", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 16, 0, 0, 0}},
		{"negative metadata", CodeArrowInvalid, "negative", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0xFF, 0xFF, 16, 0, 0, 0}},
		{"8000 columns over the same bytes", CodeArrowTooLarge, "buffers of more than", forged(many(8000, 1), func(f forge) flatbuffers.UOffsetT {
			var nodes, buffers [][2]int64
			for range 8000 {
				nodes, buffers = append(nodes, [2]int64{1 << 18, 0}), append(buffers, [2]int64{0, 0}, [2]int64{0, 1 << 20})
			}
			return f.batch(1<<18, -1, nodes, buffers)
		}, make([]byte, 1<<20))},
		{"8000 columns in 40 batches of nothing", CodeArrowTooLarge, "too many columns in too many batches", manyBatches(many(8000, 1), 8000, 40)},
		{"views that spell a terabyte", CodeArrowTooLarge, "views of more than", viewBomb()},
		{"JSON of the wrong kind", CodeJSONType, "a row is an object", []byte(`["not", "rows"]`)},
		{"an Arrow file", CodeArrowFileFormat, "pa.ipc.new_stream", append([]byte("ARROW1\x00\x00"), make([]byte, 100)...)},
		{"Avro with a registry's prefix", CodeFormatUnknown, "registry", []byte{0, 0, 0, 0, 7, 2, 'h', 'i'}},
		{"text", CodeFormatUnknown, "no known format", []byte("1.5,2.5\n")},
		{"only the end of a stream", CodeArrowInvalid, "without a schema", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}},
		{"no bytes", CodeEmpty, "no bytes", nil},
		{"17 MiB", CodeTooLarge, "at most 16777216 are read", make([]byte, 17<<20)},
	}
}

// manyBatches is a schema and n batches without rows.
func manyBatches(schema func(f forge) flatbuffers.UOffsetT, columns, batches int) []byte {
	out := forged(schema, nil, nil)
	f := newForge()
	one := f.message(3, f.batch(0, -1, make([][2]int64, columns), make([][2]int64, 2*columns)), nil)
	for range batches {
		out = append(out, one...)
	}
	return out
}

func zstdBomb(t testing.TB, says uint64) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return append(binary.LittleEndian.AppendUint64(nil, says), bytes.Repeat(w.EncodeAll(make([]byte, 8<<20), nil), 512)...)
}

func lz4Bomb(t testing.TB, says uint64) []byte {
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	for range 8 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := append(binary.LittleEndian.AppendUint64(nil, says), bytes.Repeat(b.Bytes(), 400)...)
	return append(out, make([]byte, -len(out)&7)...)
}

// viewBomb is a column of 2^18 string views, all of the same 4 MB.
func viewBomb() []byte {
	const rows, size = 1 << 18, 4 << 20
	body := make([]byte, 16*rows+size)
	for i := range rows {
		binary.LittleEndian.PutUint32(body[16*i:], size)
	}
	return forged(oneColumn(fbUtf8View, 0), func(f forge) flatbuffers.UOffsetT {
		return f.batch(rows, -1, [][2]int64{{rows, 0}}, [][2]int64{{0, 0}, {0, 16 * rows}, {16 * rows, size}}, 1)
	}, body)
}

func TestBombs(t *testing.T) {
	for _, c := range bombs(t) {
		t.Run(c.name, func(t *testing.T) {
			err := decodeHostile(t, newDecoder(t, Config{}), c.in)
			if err == nil {
				t.Fatal("accepted")
			}
			checkRefusal(t, err, c.code, c.says)
		})
	}
}

// The forger forges nothing when it does not try to: otherwise the bombs could be refused for
// faults of its own.
func TestForgeIsSound(t *testing.T) {
	in := forged(oneColumn(fbFloat, 1), func(f forge) flatbuffers.UOffsetT {
		return f.batch(2, -1, [][2]int64{{2, 0}}, [][2]int64{{0, 0}, {0, 8}})
	}, []byte{0, 0, 0x80, 0x3F, 0, 0, 0, 0x40})
	rec, err := newDecoder(t, Config{}).Decode(t.Context(), in, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(rec); len(got) != 1 || got[0] != "c float32 "+f(1)+" "+f(2) {
		t.Error(got)
	}
}

// A producer whose every message has another wide schema costs time, not memory.
func TestSchemasAreBounded(t *testing.T) {
	d := newDecoder(t, Config{Format: Arrow})
	schemas := &d.decoders[d.chosen].(*arrowDecoder).schemas
	for i := range 100 {
		in := forged(func(f forge) flatbuffers.UOffsetT {
			fields := []flatbuffers.UOffsetT{f.field(f.b.CreateString(fmt.Sprint("c", i)), fbFloat, 1)}
			for range 2000 {
				fields = append(fields, fields[0])
			}
			return f.schema(fields...)
		}, nil, nil)
		for range 2 {
			if err := decodeHostile(t, d, in); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(schemas.known); n == 0 || n > 8 || schemas.weight > maxSchemas {
			t.Fatalf("%d schemas of %d bytes after %d", n, schemas.weight, i)
		}
	}
}

// Every prefix of a message is refused or, at the end of a batch, read as what came before.
func TestTruncatedAtEveryByte(t *testing.T) {
	all := streams(t)
	for _, name := range []string{"layout_plain", "layout_zstd", "layout_batches", "dictionary_of_struct", "polars_lz4"} {
		t.Run(name, func(t *testing.T) {
			in := all[name].data(t)
			d := newDecoder(t, Config{Format: Arrow})
			for n := range in {
				if err := decodeHostile(t, d, in[:n:n]); err == nil && n < len(in)-8 && name != "layout_batches" {
					// only a whole schema, or schema and dictionaries, is a stream: of no rows
					if rec, _ := d.Decode(t.Context(), in[:n:n], ""); rec.NumRows() > 0 {
						t.Fatalf("%d of %d bytes give %d rows", n, len(in), rec.NumRows())
					}
				}
			}
		})
	}
}

// Each bit of small messages of very different layouts, flipped alone.
func TestEachBitFlipped(t *testing.T) {
	all := streams(t)
	for _, name := range []string{"string", "fsl", "dictionary_delta", "union_dense", "string_view", "ree_int32", "map", "layout_legacy", "two_list"} {
		t.Run(name, func(t *testing.T) {
			in := all[name].data(t)
			d := newDecoder(t, Config{})
			for bit := range len(in) * 8 {
				in[bit/8] ^= 1 << (bit % 8)
				_ = decodeHostile(t, d, in)
				in[bit/8] ^= 1 << (bit % 8)
			}
		})
	}
}

// FuzzDecode mutates streams of all types; whatever it makes of them is refused or safe to read.
func FuzzDecode(f *testing.F) {
	for _, s := range streams(f) {
		f.Add(s.data(f))
	}
	for _, c := range bombs(f) {
		if len(c.in) < 1<<16 {
			f.Add(c.in)
		}
	}
	d := newDecoder(f, Config{})
	f.Fuzz(func(t *testing.T, in []byte) { _ = decodeHostile(t, d, in) })
}

// seeds are the bytes of all streams, in the order of their names.
func seeds(t testing.TB) (all [][]byte) {
	s := streams(t)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, s[name].data(t))
	}
	return all
}

// mutant is a seed in which some numbers are others. Its flatbuffers stay well formed more often
// than under FuzzDecode, so more of them reach the checks of values.
func mutant(all [][]byte, rng *rand.Rand) []byte {
	in := bytes.Clone(all[rng.IntN(len(all))])
	for range rng.IntN(6) + 1 {
		mutate(in, rng)
	}
	return in
}

// Of bytes that no program wrote but pyarrow takes as valid, we read what it reads, or nothing. What we
// refuse of them contradicts itself where pyarrow does not look (sizes of flatbuffer tables, places
// of buffers that have no meaning), is against a limit, or stands after the end of the stream.
func TestMutantsEqualPyarrow(t *testing.T) {
	b, err := os.ReadFile("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, d := streams(t), newDecoder(t, Config{})
	equal, total := 0, 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		in := all[f[0]].data(t)
		for _, edit := range strings.Split(f[1], ",") {
			var at int
			var v byte
			if _, err := fmt.Sscanf(edit, "%d:%x", &at, &v); err != nil {
				t.Fatal(err)
			}
			in[at] = v
		}
		total++
		rec, err := d.Decode(t.Context(), in, "")
		if err != nil {
			continue
		}
		var columns []string
		for _, values := range dumpRecord(rec) {
			columns = append(columns, strings.Join(values, " "))
		}
		sum := sha256.Sum256([]byte(strings.Join(columns, "\n")))
		if got := hex.EncodeToString(sum[:8]); got != f[2] {
			t.Errorf("%s %s reads as %s", f[0], f[1], strings.Join(columns, "\n"))
		}
		equal++
	}
	if total < 2000 || equal*100 < total*70 { // three quarters when this was written
		t.Errorf("%d of %d accepted", equal, total)
	}
}

// FuzzDecodeNumbers lets the fuzzer choose the mutants.
func FuzzDecodeNumbers(f *testing.F) {
	for i := range uint64(64) {
		f.Add(i, i)
	}
	all, d := seeds(f), newDecoder(f, Config{})
	f.Fuzz(func(t *testing.T, seed1, seed2 uint64) {
		_ = decodeHostile(t, d, mutant(all, rand.New(rand.NewPCG(seed1, seed2))))
	})
}

// mutate replaces one aligned number by one that is likely to be a boundary of something.
func mutate(in []byte, rng *rand.Rand) {
	if len(in) < 8 {
		return
	}
	width := []int{1, 2, 4, 8}[rng.IntN(4)]
	at := rng.IntN(len(in)/width) * width
	old := int64(0)
	for i := range width {
		old |= int64(in[at+i]) << (8 * i)
	}
	v := []int64{0, 1, -1, old + 1, old - 1, old * 2, old / 2, -old, 1 << 31, 1<<31 - 1, 1 << 62, int64(len(in)), rng.Int64N(64), rng.Int64()}[rng.IntN(14)]
	for i := range width {
		in[at+i] = byte(v >> (8 * i))
	}
}
