package app

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
)

// Shortened returns all names, or of more than most the first ones and the last one.
func Shortened(names []string, most int) []string {
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most-1]), "… "+names[len(names)-1])
}

// Printable formats text for a terminal: at most 64 bytes, quoted unless it is plain.
func Printable(b []byte) string {
	short := b[:min(len(b), 64)]
	for _, c := range short {
		if c < 0x20 || c > 0x7e {
			return fmt.Sprintf("%q", short)
		}
	}
	return string(short)
}

// OtherModels lists the models that a topic has.
func OtherModels(models []string) string {
	if len(models) == 0 {
		return "the topic has none"
	}
	return fmt.Sprintf("the topic has %q", models)
}

// Finite returns nil for a number that JSON does not have.
func Finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Known formats a number that may not be known yet.
func Known(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	return fmt.Sprintf("%.4g", v)
}

// Maybe formats a number that may be missing.
func Maybe(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return Known(*v)
}

// SomeNames lists names, and how many more there are than a line takes.
func SomeNames(names []string) string {
	const most = 10
	text := strings.Join(terminal.Names(names[:min(most, len(names))]), ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// Age formats a duration for people, with two units at most.
func Age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Without returns the names that others does not have.
func Without(all, others []string) []string {
	return append([]string{}, slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(others, s) })...)
}
