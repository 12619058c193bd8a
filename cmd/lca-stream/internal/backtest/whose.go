package backtest

import (
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/minibatch"
)

// rowsOfKey is the least mean number of rows of a value, in a column that says whose row it is.
const rowsOfKey = 10

// mostNulls: one row in this many may be null there.
const mostNulls = 100

// keyNames are the last words of names of columns that say whose row it is.
var keyNames = map[string]bool{
	"id": true, "key": true, "machine": true, "device": true, "host": true, "hostname": true, "instance": true, "station": true, "asset": true, "node": true,
	"server": true, "serial": true, "tenant": true, "vehicle": true, "pump": true, "press": true, "turbine": true, "engine": true, "robot": true, "plant": true,
}

// calendarNames are those of columns that say when a row was.
var calendarNames = map[string]bool{
	"hour": true, "minute": true, "day": true, "weekday": true, "week": true, "month": true, "quarter": true, "shift": true,
}

// leastTurns is the number of values from which on a column whose values come by turns says whose row it is: days of the week do so, too.
const leastTurns = 8

// byTurns reports whether the values of a column come by turns, as those of machines do that are read in rounds, each in any order: few come again before half of the
// others have come, an eighth of them where each round has an order of its own. Of values that come at random a third do, or more.
func byTurns(distinct, rows int, value func(i int) string) bool {
	if distinct < leastTurns {
		return false
	}
	last, early := map[string]int{}, 0
	for i := range rows {
		of := value(i)
		if at, ok := last[of]; ok && 2*(i-at) < distinct {
			early++
		}
		last[of] = i
	}
	return 6*early <= rows
}

// ofCalendar reports whether the values of a column say when a row was: if they are times of day, or if rows come evenly and a value comes again after whole days, as
// hours, months and days of a cycle do.
func ofCalendar(times []moment, rows int, value func(i int) string) bool {
	const day = int64(24 * time.Hour / time.Microsecond)
	if _, ok := ofDay(value(0)); ok {
		return true
	}
	var steps []int64
	for i, at := range times {
		if i > 0 && at.known && times[i-1].known {
			steps = append(steps, at.micros-times[i-1].micros)
		}
	}
	if len(steps) == 0 {
		return false
	}
	slices.Sort(steps)
	step, last, whole := steps[len(steps)/2], map[string]int{}, 0
	for i, at := range times {
		of := value(i)
		if before, ok := last[of]; ok {
			passed := at.micros - times[before].micros
			if even := int64(i-before) * step; passed >= day && passed%day == 0 && 10*max(even-passed, passed-even) <= passed {
				whole++
			}
		}
		last[of] = i
	}
	return 10*whole >= 9*(rows-len(last))
}

// keyOf returns the column that says whose row it is: by the times, which go on within its values alone, by its name, or by its texts, which come by turns.
// tall is the column of names where each row is one measurement. "": there is none, or several may be.
func (b *backtest) keyOf(rec arrow.Record, judged []minibatch.Judgement, tall string, order rowOrder) string {
	var byTime, byName, inTurn []string
	for i, j := range judged {
		c, col := j.Column, rec.Column(i)
		if slices.Contains([]string{b.flags.time, b.columns.clock, b.flags.labels}, c.Name) || mostNulls*c.Nulls > c.Rows || j.Feature && order.dates() {
			continue
		}
		switch col.(type) {
		case *array.String, *array.LargeString, *array.StringView, *array.Int64, *array.Int32, *array.Int16, *array.Int8, *array.Uint64, *array.Uint32, *array.Uint16, *array.Uint8, *array.Dictionary:
		default:
			continue
		}
		distinct, stretches := counted(col)
		words := strings.FieldsFunc(strings.ToLower(c.Name), func(r rune) bool { return strings.ContainsRune("_-. ", r) })
		named := func(of map[string]bool) bool { return len(words) > 0 && of[words[len(words)-1]] }
		if distinct < 2 || col.Len() < rowsOfKey*distinct || named(calendarNames) {
			continue
		}
		own, steps := back(order.times, col.ValueStr), col.Len()-order.back
		if j.Feature && 4*max(distinct*steps, col.Len()) > 5*min(distinct*steps, col.Len()) {
			continue // a number says whose row it is only where nearly each time has a row of each
		}
		switch {
		case order.back >= distinct-1 && order.back > 0 && 20*own <= order.back:
			byTime = append(byTime, c.Name)
		case j.Feature:
		case order.times != nil && stretches == distinct && c.Name != tall && !slices.ContainsFunc(words, func(word string) bool { return word != "id" && keyNames[word] }):
			// Batches and orders follow each other in time.
		case c.Name == tall || named(keyNames) || strings.HasPrefix(j.Reason, "an id"):
			byName = append(byName, c.Name)
		case strings.HasPrefix(j.Reason, "text") && byTurns(distinct, col.Len(), col.ValueStr) && 20*own <= col.Len() && !ofCalendar(order.times, col.Len(), col.ValueStr):
			inTurn = append(inTurn, c.Name)
		}
	}
	found, why := byTime, "times go on within each of its values"
	if len(found) == 0 {
		found, why = byName, "its values come again and again"
	}
	if len(found) == 0 {
		found, why = inTurn, "its values come by turns"
	}
	if len(found) == 0 {
		return ""
	}
	if one := finest(rec, found); one != "" {
		b.say("key", "%s, as %s (--key names another)", brief(one), why)
		return one
	}
	slices.Sort(found)
	b.say("key", "%s may say whose row it is, and so all rows are one series: --key names the one that does", shownNames(found))
	return ""
}

// counted returns the number of different values of a column, and that of its stretches of one value.
func counted(col arrow.Array) (distinct, stretches int) {
	values, before := map[string]bool{}, ""
	for i := range col.Len() {
		of := col.ValueStr(i)
		if i == 0 || of != before {
			stretches++
		}
		values[of], before = true, of
	}
	return len(values), stretches
}

// finest returns the column of which a value goes with one value of each of the others, as a machine is at one site; "": there is none. Columns whose values come and go,
// as batches do, are passed over next to one that has its values from the beginning to the end.
func finest(rec arrow.Record, names []string) string {
	column := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
	var kept []string
	for _, name := range names {
		if len(names) > 1 && throughout(column(name)) {
			kept = append(kept, name)
		}
	}
	if kept == nil {
		kept = names
	}
	for _, name := range kept {
		if !slices.ContainsFunc(kept, func(other string) bool { return !determines(column(name), column(other)) }) {
			return name
		}
	}
	return ""
}

// determines reports whether each value of a column goes with one value of another.
func determines(col, other arrow.Array) bool {
	of := map[string]string{}
	for i := range col.Len() {
		value := col.ValueStr(i)
		if with, ok := of[value]; ok && with != other.ValueStr(i) {
			return false
		}
		of[value] = other.ValueStr(i)
	}
	return true
}

// throughout reports whether nine tenths of the values of a column are in the first third of its rows, and in the last.
func throughout(col arrow.Array) bool {
	first, last, all := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range col.Len() {
		value := col.ValueStr(i)
		all[value] = true
		if 3*i < col.Len() {
			first[value] = true
		}
		if 3*i >= 2*col.Len() {
			last[value] = true
		}
	}
	return 10*min(len(first), len(last)) >= 9*len(all)
}
