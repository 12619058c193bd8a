package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/source/format"
)

// Each partition has a decoder of its own; what they leave out is said once.
func TestLeftOutIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	s := &Topics{log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		s.leftOut(format.LeftOut{Of: "plant.Node", Paths: []string{"next", "more"}})
		s.leftOut(format.LeftOut{Of: "plant.Other", Paths: []string{"next"}, More: 7})
	}
	for _, want := range []string{`schema=plant.Node fields="next, more"`, "schema=plant.Other fields=next and_more=7"} {
		if strings.Count(log.String(), "level=WARN") != 2 || strings.Count(log.String(), want) != 1 {
			t.Errorf("want %q once:\n%s", want, &log)
		}
	}
}
