package snapshot

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// TestDamage holds that models and sums that were damaged, compressed ones too, are refused in words of ours.
func TestDamage(t *testing.T) {
	sums := statisticsOf(t)
	var written bytes.Buffer
	if err := WriteStatistics(&written, sums); err != nil {
		t.Fatal(err)
	}
	readSums := func(data []byte) error { _, err := ReadStatistics(bytes.NewReader(data), sums); return err }
	var model bytes.Buffer
	if err := WriteFile(&model, example(4, 2, 30, 7)); err != nil {
		t.Fatal(err)
	}
	readModel := func(data []byte) error { _, err := ReadFile(bytes.NewReader(data)); return err }
	for name, c := range map[string]struct {
		data []byte
		read func([]byte) error
	}{
		"sums": {written.Bytes(), readSums}, "sums, LZ4": {compressed(t, written.Bytes(), ipc.WithLZ4()), readSums},
		"sums, Zstandard": {compressed(t, written.Bytes(), ipc.WithZstd()), readSums}, "a model": {model.Bytes(), readModel},
	} {
		if err := c.read(c.data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := rand.New(rand.NewPCG(2, 7))
		for range 2000 {
			err := c.read(damage(r, c.data))
			if err == nil {
				continue // of a number, which nothing else says
			}
			for _, foreign := range []string{"runtime error", "unknown error", "arrow/ipc"} {
				if strings.Contains(err.Error(), foreign) || !utf8.ValidString(err.Error()) {
					t.Fatalf("%s: %q", name, err)
				}
			}
		}
	}
}

// compressed writes a stream again.
func compressed(t *testing.T, data []byte, option ipc.Option) []byte {
	t.Helper()
	in, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	out := ipc.NewWriter(&b, ipc.WithSchema(in.Schema()), option)
	for in.Next() {
		if err := out.Write(in.Record()); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// damage zeroes, sets, overwrites, takes out or repeats some bytes.
func damage(r *rand.Rand, data []byte) []byte {
	data = bytes.Clone(data)
	n := 1 << r.IntN(8)
	at := r.IntN(len(data) - n)
	hit := data[at : at+n]
	switch r.IntN(5) {
	case 0:
		clear(hit)
	case 1:
		copy(hit, bytes.Repeat([]byte{0xff}, n))
	case 2:
		for i := range hit {
			hit[i] = byte(r.Uint32())
		}
	case 3:
		return append(data[:at], data[at+n:]...)
	case 4:
		return append(bytes.Clone(data[:at+n]), data[at:]...)
	}
	return data
}
