package minibatch

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Some producers write numbers next to their names, as rows or within one. A survey says how to name them.

// mostShown bounds the text of a list that is looked into.
const mostShown = 1 << 20

// listed says what to do with a list of objects that is kept as its text; "": the text is none.
func listed(name, text string) string {
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, " \t\r\n"), "[")
	if rest = strings.TrimLeft(rest, " \t\r\n"); !ok || !strings.HasPrefix(rest, "{") {
		return ""
	}
	path := name + ".0.…"
	if len(text) <= mostShown {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if found, _ := firstNumber(d, name); found != "" {
			path = found
		}
	}
	return "a list of objects; name a value by its path, such as " + path + ", if each message has it in the same place: paths count places, and do not look for names"
}

// firstNumber reads a value, and returns the path of the first number within that may be a measurement; ok: the text is well-formed up to
// there.
func firstNumber(d *json.Decoder, path string) (found string, ok bool) {
	t, err := d.Token()
	if err != nil {
		return "", false
	}
	switch t := t.(type) {
	case json.Number:
		if namedReason(path[strings.LastIndexByte(path, '.')+1:]) == "" {
			return path, true
		}
	case json.Delim:
		for i := 0; d.More(); i++ {
			key := strconv.Itoa(i)
			if t == '{' {
				name, err := d.Token()
				if err != nil {
					return "", false
				}
				key, _ = name.(string)
			}
			if found, ok = firstNumber(d, path+"."+key); !ok || found != "" {
				return found, ok
			}
		}
		_, err = d.Token()
	}
	return "", err == nil
}

// Of a column of names next to rows of one or two numbers.
const (
	namedNumbers = 2  // most numbers
	namedRows    = 10 // rows of each name, at least, on average
)

// Tall returns the column that names what the numbers of a row are of, if rows are of few numbers and a name, such as
// {"sensorId": "a7", "value": 21.5}, and how many names there are; "": rows are not.
func (s *Survey) Tall() (column string, names int) {
	features, found := 0, 0
	for _, j := range s.Judge() {
		c := j.Column
		switch label := c.Numeric && c.whole && !c.rises && (j.Reason == namedReason("id") || strings.HasPrefix(j.Reason, "a label")); {
		case j.Feature:
			features++
		case (label || notNumeric(c.Type) == "text") && c.shape == "" && c.Nulls == 0 && c.Rows == s.Rows && c.Distinct > 1 && c.Distinct*namedRows <= s.Rows:
			column, names = c.Name, c.Distinct
			found++
		}
	}
	if s.Without != "" || features == 0 || features > namedNumbers || found != 1 {
		return "", 0
	}
	return column, names
}
