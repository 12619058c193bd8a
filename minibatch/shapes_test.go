package minibatch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source/format"
)

// surveyOf surveys messages of JSON, as init does.
func surveyOf(t *testing.T, messages ...string) *minibatch.Survey {
	t.Helper()
	d, err := format.NewDecoder(format.Config{Nested: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &minibatch.Survey{Nested: true}
	for _, m := range messages {
		rec, err := d.Decode(t.Context(), []byte(m), "")
		if err == nil {
			err = s.Add(rec, 0, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Lists of objects, of which a value is named by its place: what a survey says of them names the first that may be a measurement.
func TestListsOfObjects(t *testing.T) {
	for name, c := range map[string]struct{ column, message, want string }{
		"OTLP": {"resourceMetrics", `{"resourceMetrics":[{"resource":{"attributes":[{"key":"k","value":{"stringValue":"v"}}]},"scopeMetrics":[{"scope":{},"metrics":[` +
			`{"name":"t","gauge":{"dataPoints":[{"asDouble":21.5,"timeUnixNano":"1"}]}}]}]}]}`, "resourceMetrics.0.scopeMetrics.0.metrics.0.gauge.dataPoints.0.asDouble"},
		"Sparkplug":        {"metrics", `{"timestamp":1,"metrics":[{"name":"t","timestamp":1486144502122,"dataType":"Float","value":21.5}],"seq":2}`, "metrics.0.value"},
		"Telegraf":         {"metrics", `{"metrics":[{"fields":{"usage":1.5},"name":"cpu","tags":{"host":"a"},"timestamp":1}]}`, "metrics.0.fields.usage"},
		"within":           {"a.e", `{"a":{"e":[{"n":"t","v":1}]}}`, "a.e.0.v"},
		"without a number": {"e", `{"e":[{"n":"t","v":"1"}]}`, "e.0.…"},
	} {
		for _, j := range surveyOf(t, c.message, c.message).Judge() {
			if j.Column.Name == c.column && (j.Feature || !strings.HasPrefix(j.Reason, "a list of objects") || !strings.Contains(j.Reason, "such as "+c.want+",")) {
				t.Errorf("%s: %q, want %s", name, j.Reason, c.want)
			}
		}
	}
	for _, j := range surveyOf(t, `{"a":"[{no list","b":["x"],"c":[[1],{}]}`).Judge() {
		if j.Reason != "text" {
			t.Errorf("%s: %s", j.Column.Name, j.Reason)
		}
	}
}

// What counts up next to a list of objects is no feature, though no other column is there: the measurements are within the list.
func TestCounterNextToAListOfObjects(t *testing.T) {
	var rows, alone []string
	for i := range 2 * minibatch.JudgedRows {
		rows = append(rows, fmt.Sprintf(`{"count":%d,"metrics":[{"name":"t","value":%d.5}]}`, i, i*i%101))
		alone = append(alone, fmt.Sprintf(`{"count":%d}`, i))
	}
	if columns, _ := surveyOf(t, rows...).Features(); len(columns) > 0 {
		t.Errorf("%v", columns)
	}
	if columns, _ := surveyOf(t, alone...).Features(); len(columns) != 1 {
		t.Errorf("%v, and there is nothing else", columns)
	}
}

// Rows of a name and a number are of several things.
func TestTall(t *testing.T) {
	row := func(form string) (all []string) {
		for i := range 300 {
			all = append(all, fmt.Sprintf(form, i%7, float64(i*i%101)/3))
		}
		return all
	}
	for name, c := range map[string]struct {
		form, want string
	}{
		"names":             {`{"sensorId":"s%d","value":%g}`, "sensorId"},
		"numbers for names": {`{"sensorId":%d,"value":%g}`, "sensorId"},
		"SenML":             {`{"n":"urn:dev:%d","u":"Cel","v":%g}`, "n"},
		"two of them":       {`{"n":"urn:dev:%d","site":"b%[1]d","v":%g}`, ""},
		"many numbers":      {`{"n":"urn:dev:%d","a":%[2]g,"b":%[2]g,"c":%[2]g}`, ""},
		"a name for each":   {`{"n":"urn:%d%g","v":%[2]g}`, ""},
	} {
		s := surveyOf(t, row(c.form)...)
		got, n := s.Tall()
		if got != c.want || got != "" && n != 7 {
			t.Errorf("%s: %q of %d, want %q", name, got, n, c.want)
		}
		if s.Without = c.want; c.want != "" {
			if got, _ := s.Tall(); got != "" {
				t.Errorf("%s: %q where it has models of its own", name, got)
			}
		}
	}
}
