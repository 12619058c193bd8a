//go:build unix

package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// As many features as a file holds are read in about the time that the file takes: four times as many in four times as long, in one line as in many.
func TestManyFeatures(t *testing.T) {
	list := func(n int, separator string) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("f%d", i)
		}
		return strings.Join(names, separator)
	}
	for name, doc := range map[string]func(n int) string{
		"in one line": func(n int) string { return "source: {features: [" + list(n, ",") + "]}\nlca: {neighbours: 10}\n" },
		"in many": func(n int) string {
			return "lca: {neighbours: 10}\nsource:\n  features:\n  - " + list(n, "\n  - ") + "\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			few, many := doc(20_000), doc(80_000)
			began := testtools.ProcessorTime(t)
			_, _ = load(few, nil)
			between := testtools.ProcessorTime(t)
			_, err := load(many, nil)
			if once, again := between-began, testtools.ProcessorTime(t)-between; again > 9*once {
				t.Errorf("%v, and %v of four times as many", once, again)
			}
			if err != nil && !strings.Contains(err.Error(), "checkpoint") {
				t.Errorf("%.300v", err)
			}
		})
	}
}
