package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Where a column of times goes on otherwise than the timestamps of the records, one line says so, with both.
func TestSpans(t *testing.T) {
	d, err := format.NewDecoder(format.Config{Nested: true})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	live := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Minute) }
	burst := func(i int) time.Time { return begin.Add(time.Duration(i) * 10 * time.Millisecond) }
	seconds := func(i int) string { return fmt.Sprint(live(i).Unix()) }
	for name, c := range map[string]struct {
		column string
		value  func(i int) string
		stamp  func(i int) time.Time
		rows   int
		want   string
	}{
		"live":                      {"ts", seconds, live, 300, ""},
		"a burst":                   {"ts", seconds, burst, 300, "By ts these messages span 4h59m, by their Kafka timestamps 3s."},
		"milliseconds":              {"ts", func(i int) string { return fmt.Sprint(live(i).UnixMilli()) }, burst, 300, "span 4h59m"},
		"text":                      {"read", func(i int) string { return `"` + live(i).Format(time.RFC3339Nano) + `"` }, burst, 300, "By read these messages span 4h59m"},
		"text without a zone":       {"read", func(i int) string { return `"` + live(i).Format("2006-01-02 15:04:05.000") + `"` }, burst, 300, "span 4h59m"},
		"sent slowly":               {"ts", func(i int) string { return fmt.Sprintf("%.3f", float64(burst(i).UnixMilli())/1000) }, live, 300, "span 3s, by their Kafka timestamps 4h59m"},
		"three times as long":       {"ts", seconds, func(i int) time.Time { return begin.Add(time.Duration(i) * 20 * time.Second) }, 300, ""},
		"when machines were built":  {"built_ts", func(i int) string { return seconds(i * 7919 % 101 * 1000) }, live, 300, ""},
		"one time":                  {"ts", func(int) string { return seconds(0) }, live, 300, ""},
		"a clock from its start":    {"ts", func(i int) string { return fmt.Sprint(i) }, live, 300, ""},
		"a feature":                 {"watt", func(i int) string { return fmt.Sprintf("%d.5", 1_700_000_000+i*7919%101*1000) }, burst, 300, ""},
		"text that is no time":      {"read", func(i int) string { return fmt.Sprintf(`"row %d"`, i) }, burst, 300, ""},
		"two messages tell nothing": {"ts", seconds, burst, 2, ""},
	} {
		var s spans
		survey := minibatch.Survey{Nested: true}
		for i := range c.rows {
			rec, err := d.Decode(t.Context(), []byte(fmt.Sprintf(`{"a": %d.5, %q: %s}`, i*7919%101, c.column, c.value(i))), "")
			if err != nil {
				t.Fatal(err)
			}
			m := &source.Message{Time: c.stamp(i), Record: rec}
			s.add(m)
			if err := survey.Add(rec, 0, ""); err != nil {
				t.Fatal(err)
			}
			rec.Release()
		}
		if got := s.said(survey.Judge(), "1/day"); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
