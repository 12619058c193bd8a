package main

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
		rows: 30750, of: 41000, seconds: 1.5, learnt: 21500, nll: 30.181, gaussian: 30.912, dParzen: 2, dGauss: 10,
		version: 20000, address: "127.0.0.1:8095",
	}
	want := []string{
		"  whitened   ██████████████████░░░░░░  75 %   30,750 of 41,000   20,500 rows/s",
		"  learnt     21,500 rows",
		"  surprise   30.18 nats per row (a single Gaussian: 30.91)",
		"  metric     2 Parzen + 10 Gaussian directions, version 20,000",
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
	if text := strings.Join(young.panel(80), "\n"); !strings.Contains(text, "warming up") || !strings.Contains(text, "no model yet") || strings.Contains(text, "NaN") {
		t.Error(text)
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
