package demo

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDemoPanel(t *testing.T) {
	v := view{
		rows: 30750, of: 41000, learnt: 21500, nll: 30.181, gaussian: 30.912, dParzen: 2, dGauss: 10,
		version: 20000, address: "127.0.0.1:8095",
	}
	want := []string{
		"  whitened   ██████████████████░░░░░░  75 %   30,750 of 41,000",
		"  learnt     21,500 rows",
		"  structure  2 of 12 directions carry structure",
		"  fit        0.73 nats per row better than a single Gaussian",
		"  page       http://127.0.0.1:8095/",
	}
	if diff := cmp.Diff(want, v.panel(80)); diff != "" {
		t.Error(diff)
	}
	for _, width := range []int{1, 20, 40} {
		for _, l := range v.panel(width) {
			if utf8.RuneCountInString(l) >= width && width > 1 {
				t.Errorf("%d wide: %q", width, l)
			}
		}
	}
	young := view{of: 41000, nll: math.NaN(), gaussian: math.NaN()}
	if text := strings.Join(young.panel(80), "\n"); !strings.Contains(text, "collecting the first rows") || !strings.Contains(text, "no model yet") || strings.Contains(text, "NaN") {
		t.Error(text)
	}
}

// A log gets plain words from its first line on.
func TestDemoLines(t *testing.T) {
	for want, v := range map[string]view{
		"0 rows learnt, no model yet: rows are whitened from the first model on": {of: 21000, nll: math.NaN(), gaussian: math.NaN()},
		"0 of 21,000 rows whitened, 2,000 learnt: all 12 directions count as structure, so far, 0.25 nats per row worse than a single Gaussian, so far": {
			of: 21000, learnt: 2000, nll: 30.5, gaussian: 30.25, dParzen: 12, version: 2000,
		},
		"14,500 of 21,000 rows whitened, 15,000 learnt: 2 of 12 directions carry structure, 0.75 nats per row better than a single Gaussian": {
			rows: 14500, of: 21000, learnt: 15000, nll: 29.5, gaussian: 30.25, dParzen: 2, dGauss: 10, version: 14000,
		},
	} {
		if got := v.line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is drawn is taken away again, line for line, before the report.
func TestDemoPanelIsTakenAway(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, live: true, width: 80, drawn: 5}
	s.end()
	s.end()
	if out.String() != "\x1b[5A\r\x1b[J" {
		t.Errorf("%q", out.String())
	}
}

func TestThousand(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 41000: "41,000", 1234567: "1,234,567"} {
		if got := thousand(n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
