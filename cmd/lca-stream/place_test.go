package main

import (
	"testing"
	"time"
)

// Times are written as people write them; what has no zone is UTC, and a duration counts back from now.
func TestParsePlace(t *testing.T) {
	now := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-22":                time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC),
		"2026-11-22T12:30":          time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC),
		"2026-11-22 12:30:05":       time.Date(2026, 11, 22, 12, 30, 5, 0, time.UTC),
		"2026-11-22T12:00:00+02:00": time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC),
		"2h":                        now.Add(-2 * time.Hour),
		"90m":                       now.Add(-90 * time.Minute),
	} {
		p, err := parsePlace("--from", text, now)
		if err != nil || !p.time.Equal(want) {
			t.Errorf("%s is %v, %v; want %v", text, p.time, err, want)
		}
	}
	for _, text := range []string{"-2h", "22.11.2026", "2026-13-01", ""} {
		if p, err := parsePlace("--from", text, now); err == nil {
			t.Errorf("%q is taken for %+v", text, p)
		}
	}
}
