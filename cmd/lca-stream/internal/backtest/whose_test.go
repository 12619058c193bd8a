package backtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/minibatch"
)

// What says when a row was, or which batch it is of, does not say whose it is. Of a machine's number, name and site one is enough.
func TestWhoseRowsTheyAre(t *testing.T) {
	const rows = 3000
	rng := rand.New(rand.NewPCG(1, 2))
	type column = func(i int) string
	begin := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	at := func(step time.Duration, layout string) column {
		return func(i int) string { return begin.Add(time.Duration(i) * step).Format(layout) }
	}
	of := func(format string, value func(i int) int) column {
		return func(i int) string { return fmt.Sprintf(format, value(i)) }
	}
	turn := func(i int) int { return i % 30 }
	for name, c := range map[string]struct {
		columns map[string]column
		order   []string
		want    string
	}{
		"times of day next to dates":    {map[string]column{"date": at(time.Hour, time.DateOnly), "time": at(time.Hour, "15:04")}, []string{"date", "time"}, ""},
		"hours of 12 next to dates":     {map[string]column{"date": at(time.Hour, time.DateOnly), "uhr": at(time.Hour, "3 PM")}, []string{"date", "uhr"}, ""},
		"an hour by its name":           {map[string]column{"date": at(time.Hour, time.DateOnly), "hour": of("H%02d", func(i int) int { return i % 24 })}, []string{"date", "hour"}, ""},
		"times of day next to times":    {map[string]column{"at": at(time.Hour, time.RFC3339), "uhr": at(time.Hour, "15:04")}, []string{"at", "uhr"}, ""},
		"hours in words":                {map[string]column{"at": at(time.Hour, time.RFC3339), "stunde": of("h%d", func(i int) int { return i % 24 })}, []string{"at", "stunde"}, ""},
		"days of the moon":              {map[string]column{"at": at(24*time.Hour, time.DateOnly), "moon": of("d%d", func(i int) int { return i % 28 })}, []string{"at", "moon"}, ""},
		"batches, one after the other":  {map[string]column{"at": at(time.Minute, time.RFC3339), "batch_id": of("b%d", func(i int) int { return i / 60 })}, []string{"at", "batch_id"}, ""},
		"machines, one after the other": {map[string]column{"at": at(time.Minute, time.RFC3339), "machine_id": of("b%d", func(i int) int { return i / 60 })}, []string{"at", "machine_id"}, "machine_id"},
		"machines by turns":             {map[string]column{"at": at(time.Second, time.RFC3339), "wer": of("m%d", turn)}, []string{"at", "wer"}, "wer"},
		"machines once a day": {map[string]column{"at": func(i int) string {
			return begin.AddDate(0, 0, i/30).Add(time.Duration(i%30) * time.Minute).Format(time.RFC3339)
		}, "wer": of("m%d", turn)}, []string{"at", "wer"}, "wer"},
		"some do not say":                    {map[string]column{"at": at(time.Second, time.RFC3339), "machine": func(i int) string { return map[bool]string{true: fmt.Sprint("m", turn(i))}[i%500 != 7] }}, []string{"at", "machine"}, "machine"},
		"a number and a name":                {map[string]column{"at": at(time.Second, time.RFC3339), "host": of("%d", turn), "instance": of("h%d:9100", turn)}, []string{"at", "host", "instance"}, "host"},
		"machines of sites":                  {map[string]column{"at": at(time.Second, time.RFC3339), "site_id": of("s%d", func(i int) int { return i % 30 / 10 }), "machine_id": of("m%d", turn)}, []string{"at", "site_id", "machine_id"}, "machine_id"},
		"batches of machines":                {map[string]column{"at": at(time.Second, time.RFC3339), "batch_id": func(i int) string { return fmt.Sprint("b", turn(i), "-", i/1200) }, "machine_id": of("m%d", turn)}, []string{"at", "batch_id", "machine_id"}, "machine_id"},
		"neither tells the others' machines": {map[string]column{"at": at(time.Second, time.RFC3339), "site_id": of("s%d", func(i int) int { return i % 30 / 10 }), "machine_id": of("m%d", func(i int) int { return i % 10 })}, []string{"at", "site_id", "machine_id"}, ""},
		"stores and what they sell":          {map[string]column{"at": func(i int) string { return begin.AddDate(0, 0, i/60).Format(time.DateOnly) }, "family": of("f%d", func(i int) int { return i % 10 }), "store": of("s%d", func(i int) int { return i % 60 / 10 })}, []string{"at", "family", "store"}, ""},
		"machines by numbers, at the time":   {map[string]column{"at": func(i int) string { return begin.Add(time.Duration(i/30) * time.Minute).Format(time.RFC3339) }, "#tag": of("%d", turn)}, []string{"at", "#tag"}, "#tag"},
		"counts, and some times twice":       {map[string]column{"at": func(i int) string { return begin.Add(time.Duration(i-i/20) * time.Second).Format(time.RFC3339) }, "#rpm": of("%d", func(int) int { return rng.IntN(100) })}, []string{"at", "#rpm"}, ""},
	} {
		var fields []arrow.Field
		var columns []arrow.Array
		for _, name := range c.order {
			if strings.HasPrefix(name, "#") { // a column of numbers
				b := array.NewInt64Builder(memory.DefaultAllocator)
				for i := range rows {
					n, _ := strconv.ParseInt(c.columns[name](i), 10, 64)
					b.Append(n)
				}
				fields, columns = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64}), append(columns, b.NewArray())
				continue
			}
			b := array.NewStringBuilder(memory.DefaultAllocator)
			for i := range rows {
				if value := c.columns[name](i); value != "" {
					b.Append(value)
				} else {
					b.AppendNull()
				}
			}
			fields, columns = append(fields, arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true}), append(columns, b.NewArray())
		}
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		for range rows {
			b.Append(rng.NormFloat64())
		}
		rec := array.NewRecord(arrow.NewSchema(append(fields, arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Float64}), nil), append(columns, b.NewArray()), rows)
		var s minibatch.Survey
		if err := s.Add(rec, 0, ""); err != nil {
			t.Fatal(err)
		}
		run, judged := &backtest{flags: &flags{}}, s.Judge()
		var order rowOrder
		run.flags.time, order = run.timeOf(rec, judged)
		order = run.clockOf(rec, judged, order)
		if got := run.keyOf(rec, judged, "", order); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
