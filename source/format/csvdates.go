package format

import (
	"strings"
	"time"
)

// slashedDates are the dates of a column such as 3/4/2026 or 03-04-2026, of which month and day may come first: the values tell which. Where both are dates
// throughout, it is the order by which they are nearer to each other.
type slashedDates struct {
	orders   [2]slashedOrder // the month first, the day first
	dayFirst bool
}

type slashedOrder struct {
	n           int
	first, last time.Time // the earliest and the latest
}

func (d *slashedDates) take(text string) {
	for k := range d.orders {
		at, ok := slashedTime(text, k == 1)
		if !ok {
			continue
		}
		o := &d.orders[k]
		if o.n++; o.n == 1 {
			o.first, o.last = at, at
		}
		if at.Before(o.first) {
			o.first = at
		}
		if at.After(o.last) {
			o.last = at
		}
	}
}

// settle finds out which comes first.
func (d *slashedDates) settle() {
	month, day := d.orders[0], d.orders[1]
	d.dayFirst = day.n > month.n || day.n == month.n && day.last.Sub(day.first) < month.last.Sub(month.first)
}

func (d *slashedDates) time(text string) (time.Time, bool) { return slashedTime(text, d.dayFirst) }

func isSlashed(text string) bool {
	_, month := slashedTime(text, false)
	_, day := slashedTime(text, true)
	return month || day
}

var slashedLayouts = []string{
	"1/2/2006 15:04:05", "1/2/2006 15:04", "1/2/2006 3:04:05 PM", "1/2/2006 3:04 PM", "1/2/2006", "1/2/06 15:04:05", "1/2/06 15:04", "1/2/06 3:04:05 PM", "1/2/06 3:04 PM",
}

func slashedTime(text string, dayFirst bool) (time.Time, bool) {
	i := strings.IndexAny(text, "/-")
	if i < 1 || i > 2 || len(text) > len("12/31/2026 12:00:00.000000000 PM") {
		return time.Time{}, false
	}
	second, rest, ok := strings.Cut(text[i+1:], text[i:i+1])
	if !ok || len(second) > 2 || len(rest) < 2 {
		return time.Time{}, false
	}
	month, day := text[:i], second
	if dayFirst {
		month, day = day, month
	}
	text = month + "/" + day + "/" + rest
	for _, layout := range slashedLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
