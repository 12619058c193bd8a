package transform

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// besides is a message of Arrow with rows that are whitened and columns that only pass.
func besides(t *testing.T, rows int, columns ...arrow.Array) source.Message {
	t.Helper()
	m := fixtures.Decoded(fixtures.Events, 0, sink.Message{Value: []byte(`[` + strings.Repeat(`{"x":[1,2,3,4,5,6,7,8]},`, rows-1) + `{"x":[1,2,3,4,5,6,7,8]}]`)})
	fields, all := m.Record.Schema().Fields(), []arrow.Array{m.Record.Column(0)}
	for i, c := range columns {
		fields, all = append(fields, arrow.Field{Name: string(rune('a' + i)), Type: c.DataType(), Nullable: true}), append(all, c)
	}
	m.Record, m.Format, m.Value = array.NewRecord(arrow.NewSchema(fields, nil), all, int64(rows)), format.Arrow, []byte("small")
	return m
}

// sameText has one value in all rows: once for each, or once for all.
func sameText(t *testing.T, rows int, value string, dictionary bool) arrow.Array {
	t.Helper()
	if !dictionary {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		for range rows {
			b.Append(value)
		}
		return b.NewArray()
	}
	b := array.NewDictionaryBuilder(memory.DefaultAllocator, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}).(*array.BinaryDictionaryBuilder)
	for range rows {
		if err := b.AppendString(value); err != nil {
			t.Fatal(err)
		}
	}
	return b.NewArray()
}

// A small message that would become a large text is set aside when the text is as long as its topic takes: it takes little more than that, and
// counts in the process's memory for what it takes. (20 × 2 MB of NUL, and a dictionary of one MB in 10 columns of 1000 rows, once became 128 MiB
// each.)
func TestTextsAreMadeAsFarAsTheirTopicTakesThem(t *testing.T) {
	const most = 1 << 20
	nulls := array.NewListBuilder(memory.DefaultAllocator, arrow.Null)
	nulls.Append(true)
	for range 64 << 20 {
		nulls.ValueBuilder().AppendNull()
	}
	dictionary := sameText(t, 1000, strings.Repeat("x", 1<<20), true)
	columns := make([]arrow.Array, 10)
	for i := range columns {
		columns[i] = dictionary
	}
	for name, m := range map[string]source.Message{
		"text of NUL":    besides(t, 20, sameText(t, 20, strings.Repeat("\x00", 2<<20), false)),
		"one value":      besides(t, 1, sameText(t, 1, strings.Repeat("\x00", 40<<20), false)),
		"dictionaries":   besides(t, 1000, columns...),
		"list of nulls":  besides(t, 1, nulls.NewArray()),
		"rows of little": besides(t, 40_000),
	} {
		for _, as := range []encode.Format{encode.FormatJSON, encode.FormatAvro} {
			tr := listTransform(t, reject.NullRow, fixtures.ListDim)
			tr.Output.Format, tr.Registry = as, &schemaStore{schemas: map[int]*format.Schema{}}
			tr.Takes = func(context.Context, bool) int { return most }
			if as == encode.FormatAvro && name != "one value" {
				continue // set aside for their rows; nulls take nothing
			}
			prepared(t, tr)
			before := allocatedBytes()
			b := source.Batch{Messages: []source.Message{m}}
			work, err := tr.Do(t.Context(), b)
			took := allocatedBytes() - before
			if err != nil || len(work.Messages) != 1 || fixtures.Header(work.Messages[0], "lca-error-code") != reject.CodeOutputTooLarge {
				t.Fatalf("%s as %v: %v, %d messages with code %q", name, as, err, len(work.Messages), fixtures.Header(work.Messages[0], "lca-error-code"))
			}
			if whitened := uint64(m.Record.NumRows() * fixtures.ListDim * 4 * 6); took > 6*most+whitened {
				t.Errorf("%s as %v: %d MiB allocated for a text of at most %d", name, as, took>>20, most>>20)
			}
			if size := tr.texts(t.Context(), &b, tr.Columns); size > most || size < most/2 {
				t.Errorf("%s as %v: %d bytes are reserved", name, as, size)
			}
		}
	}
}

// A topic that takes more than was known gets the message.
func TestTextsGrowWithTheirTopic(t *testing.T) {
	tr := listTransform(t, reject.NullRow, fixtures.ListDim)
	tr.Output.Format = encode.FormatJSON
	tr.Takes = func(_ context.Context, again bool) int {
		if again {
			return 8 << 20
		}
		return 1 << 20
	}
	m := besides(t, 1, sameText(t, 1, strings.Repeat("x", 4<<20), false))
	work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{m}})
	if err != nil || len(work.Messages) != 1 || work.Messages[0].Topic == "dead" {
		t.Errorf("%v, %d messages, the first with code %q", err, len(work.Messages), fixtures.Header(work.Messages[0], "lca-error-code"))
	}
}

// Times that the format of the output cannot write are null there, counted, and said once.
func TestTimesThatOutputsCannotWrite(t *testing.T) {
	far := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Second})
	far.Append(math.MaxInt64)
	for as, want := range map[encode.Format]string{encode.FormatJSON: `"a":null`, encode.FormatAvro: "\x00"} {
		tr := listTransform(t, reject.NullRow, fixtures.ListDim)
		tr.Output.Format, tr.Registry = as, &schemaStore{schemas: map[int]*format.Schema{}}
		var log bytes.Buffer
		tr.Stats, tr.Log = &stats.Stats{}, slog.New(slog.NewTextHandler(&log, nil))
		for range 2 {
			work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{besides(t, 1, far.NewArray())}})
			if err != nil || len(work.Messages) != 1 || work.Messages[0].Topic != tr.Topic || !strings.Contains(string(work.Messages[0].Whole()), want) {
				t.Fatalf("%v: %v, %+v", as, err, work.Messages)
			}
			far.Append(math.MaxInt64)
		}
		if lost, said := tr.Stats.LostTimes.Load(), strings.Count(log.String(), "times of the source are null in the output"); lost != 2 || said != 1 {
			t.Errorf("%v: %d are lost, said %d times:\n%s", as, lost, said, &log)
		}
	}
}
