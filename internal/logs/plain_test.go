package logs_test

import (
	"testing"

	"github.com/lca-stream/lca-stream/internal/logs"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"source: look up topic \"events\": kafkaconn: metadata: connection refused": "look up topic \"events\": metadata: connection refused",
		"pipeline: source: gone": "gone",
		"look up offsets: kafka.(*Client).ListOffsets: EOF (kafkaconn: half: a word)": "look up offsets: EOF (half: a word)",
		"status: http.listen :80: in use":                                             "http.listen :80: in use",
		"sink: one\nsource: two":                                                      "one\ntwo",
		"the source: it is empty":                                                     "the source: it is empty",
	} {
		if got := logs.Plain(text); got != want {
			t.Errorf("%q\n is %q\nwant %q", text, got, want)
		}
	}
}
