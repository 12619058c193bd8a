package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/lca"
)

// value binds a key to its field. set parses text into the field, check says whether what the field
// holds is allowed, String writes it as a YAML value, and want puts the type and range in words.
type value interface {
	set(text string) error
	check() error
	String() string
	want() string
	schema() map[string]any
}

// items is a value that takes a YAML sequence; a scalar is split at its commas.
type items interface {
	value
	setItems(texts []string) error
}

// itemError is a fault of one item of a sequence.
type itemError struct {
	index int
	err   error
}

func (e *itemError) Error() string { return e.err.Error() }

// Unwrap returns the item's fault.
func (e *itemError) Unwrap() error { return e.err }

// wrong is a value's fault: what is the matter, and what to do instead ("" = say what is wanted).
type wrong struct{ what, remedy string }

func (w *wrong) Error() string {
	if w.remedy == "" {
		return w.what
	}
	return w.what + "; " + w.remedy
}

// word is a name that stands for a number, such as auto.
type word[T any] struct {
	name  string
	value T
}

func wordOf[T comparable](words []word[T], v T) (string, bool) {
	for _, w := range words {
		if w.value == v {
			return w.name, true
		}
	}
	return "", false
}

func wordNamed[T any](words []word[T], name string) (v T, ok bool) {
	for _, w := range words {
		if w.name == name {
			return w.value, true
		}
	}
	return v, false
}

func orWords[T any](words []word[T]) string {
	s := ""
	for _, w := range words {
		s += ", or " + w.name
	}
	return s
}

// wholeValue is a whole number from low to high, or one of words.
type wholeValue[T int | int64 | uint64] struct {
	p         *T
	low, high int64
	words     []word[T]
}

func whole[T int | int64 | uint64](p *T, low, high int64, words ...word[T]) value {
	return &wholeValue[T]{p, low, high, words}
}

func (v *wholeValue[T]) set(text string) error {
	if w, ok := wordNamed(v.words, text); ok {
		*v.p = w
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return &wrong{what: text + " is out of range"}
	}
	if err != nil {
		return &wrong{what: fmt.Sprintf("%q is not a whole number", text)}
	}
	if n < v.low || n > v.high { // refused here as well as in check: T may not hold it, and it may be a word's number
		return &wrong{what: text + " is out of range"}
	}
	*v.p = T(n)
	return nil
}

func (v *wholeValue[T]) check() error {
	if _, ok := wordOf(v.words, *v.p); ok {
		return nil
	}
	if n := int64(*v.p); n < v.low || n > v.high {
		return &wrong{what: fmt.Sprintf("%d is out of range", *v.p)}
	}
	return nil
}

func (v *wholeValue[T]) String() string {
	if name, ok := wordOf(v.words, *v.p); ok {
		return name
	}
	return fmt.Sprint(*v.p)
}

func (v *wholeValue[T]) want() string {
	return fmt.Sprintf("a whole number, %d … %d%s", v.low, v.high, orWords(v.words))
}

func (v *wholeValue[T]) schema() map[string]any {
	return withWords(map[string]any{"type": "integer", "minimum": v.low, "maximum": v.high}, v.words)
}

// realValue is a number of at least low (above low if open), below high, or one of words.
type realValue struct {
	p         *float64
	low, high float64
	open      bool
	words     []word[float64]
}

func (v *realValue) set(text string) error {
	if w, ok := wordNamed(v.words, text); ok {
		*v.p = w
		return nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return &wrong{what: fmt.Sprintf("%q is not a number", text)}
	}
	if !v.holds(x) {
		return &wrong{what: text + " is out of range"}
	}
	*v.p = x
	return nil
}

func (v *realValue) holds(x float64) bool {
	return x >= v.low && x < v.high && (!v.open || x > v.low)
}

func (v *realValue) check() error {
	if _, ok := wordOf(v.words, *v.p); ok || v.holds(*v.p) {
		return nil
	}
	return &wrong{what: fmt.Sprintf("%v is out of range", *v.p)}
}

func (v *realValue) String() string {
	if name, ok := wordOf(v.words, *v.p); ok {
		return name
	}
	return strconv.FormatFloat(*v.p, 'g', -1, 64)
}

func (v *realValue) want() string {
	s := fmt.Sprintf("a number, at least %v", v.low)
	if v.open {
		s = fmt.Sprintf("a number above %v", v.low)
	}
	if !math.IsInf(v.high, 1) {
		s += fmt.Sprintf(" and below %v", v.high)
	}
	return s + orWords(v.words)
}

func (v *realValue) schema() map[string]any {
	s := map[string]any{"type": "number", "minimum": v.low}
	if v.open {
		s = map[string]any{"type": "number", "exclusiveMinimum": v.low}
	}
	if !math.IsInf(v.high, 1) {
		s["exclusiveMaximum"] = v.high
	}
	return withWords(s, v.words)
}

func withWords[T any](s map[string]any, words []word[T]) map[string]any {
	if len(words) == 0 {
		return s
	}
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = w.name
	}
	return map[string]any{"anyOf": []any{s, map[string]any{"enum": names}}}
}

// boolValue is true or false; YAML 1.1's yes and on are refused with the remedy.
type boolValue struct{ p *bool }

func (v *boolValue) set(text string) error {
	if text != "true" && text != "false" {
		return &wrong{what: fmt.Sprintf("%q is not true or false", text)}
	}
	*v.p = text == "true"
	return nil
}

func (v *boolValue) check() error           { return nil }
func (v *boolValue) String() string         { return strconv.FormatBool(*v.p) }
func (v *boolValue) want() string           { return "true or false" }
func (v *boolValue) schema() map[string]any { return map[string]any{"type": "boolean"} }

// spanValue is a duration such as 1m30s.
type spanValue struct {
	p         *time.Duration
	low, high time.Duration
}

func duration(p *time.Duration, low, high time.Duration) value { return &spanValue{p, low, high} }

func (v *spanValue) set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		if _, isNumber := strconv.ParseFloat(text, 64); isNumber == nil {
			return &wrong{what: text + " has no unit", remedy: "write " + text + "s, " + text + "ms or another of ns us ms s m h"}
		}
		return &wrong{what: fmt.Sprintf("%q is not a duration", text)}
	}
	*v.p = d
	return nil
}

func (v *spanValue) check() error {
	if *v.p < v.low || *v.p > v.high {
		return &wrong{what: span(*v.p) + " is out of range"}
	}
	return nil
}

func (v *spanValue) String() string { return span(*v.p) }

func (v *spanValue) want() string {
	return fmt.Sprintf("a duration such as 5s, %s … %s", span(v.low), span(v.high))
}

func (v *spanValue) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
}

// span writes a duration without the zero parts that Duration.String adds: 30m, not 30m0s.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// sizeValue is a number of bytes, with a unit or bare, or one of words.
type sizeValue struct {
	p         *int
	low, high int
	words     []word[int]
}

// sizeUnits is ordered by size, so that size finds the largest that divides.
var sizeUnits = []word[int]{
	{"B", 1}, {"kB", 1e3}, {"KiB", 1 << 10}, {"MB", 1e6}, {"MiB", 1 << 20}, {"GB", 1e9}, {"GiB", 1 << 30},
}

var sizePattern = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`)

func (v *sizeValue) set(text string) error {
	if w, ok := wordNamed(v.words, text); ok {
		*v.p = w
		return nil
	}
	m := sizePattern.FindStringSubmatch(text)
	if m == nil {
		return &wrong{what: fmt.Sprintf("%q is not a size", text)}
	}
	factor := 1
	if m[2] != "" {
		var ok bool
		if factor, ok = wordNamed(sizeUnits, m[2]); !ok {
			return &wrong{what: fmt.Sprintf("%q is not a unit of size", m[2]), remedy: "use one of B kB KiB MB MiB GB GiB"}
		}
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n > v.high/factor {
		return &wrong{what: text + " is out of range"}
	}
	if n *= factor; len(v.words) > 0 && n < v.low { // refused here as well as in check: it may be a word's number
		return &wrong{what: text + " is out of range"}
	}
	*v.p = n
	return nil
}

func (v *sizeValue) check() error {
	if _, ok := wordOf(v.words, *v.p); ok {
		return nil
	}
	if *v.p < v.low || *v.p > v.high {
		return &wrong{what: size(*v.p) + " is out of range"}
	}
	return nil
}

func (v *sizeValue) String() string {
	if name, ok := wordOf(v.words, *v.p); ok {
		return name
	}
	return size(*v.p)
}

func (v *sizeValue) want() string {
	return fmt.Sprintf("a size, %s … %s%s", size(v.low), size(v.high), orWords(v.words))
}

func (v *sizeValue) schema() map[string]any {
	kinds := []any{
		map[string]any{"type": "integer", "minimum": v.low, "maximum": v.high},
		map[string]any{"type": "string", "pattern": `^[0-9]+ ?(B|kB|KiB|MB|MiB|GB|GiB)?$`},
	}
	for _, w := range v.words {
		kinds = append(kinds, map[string]any{"const": w.name})
	}
	return map[string]any{"anyOf": kinds}
}

func size(n int) string {
	for _, u := range slices.Backward(sizeUnits) {
		if n != 0 && n%u.value == 0 {
			return strconv.Itoa(n/u.value) + u.name
		}
	}
	return strconv.Itoa(n) + "B"
}

// nuValue is ν of the Parzen part, or a sequence of that and of the Gaussian part's; each is a number or auto.
type nuValue struct{ p *[2]float64 }

func (v *nuValue) parts() [2]realValue {
	of := func(p *float64) realValue {
		return realValue{p: p, low: 0, high: math.Inf(1), words: []word[float64]{autoNumber()}}
	}
	return [2]realValue{of(&v.p[0]), of(&v.p[1])}
}

func (v *nuValue) set(text string) error { return v.setItems(split(text)) }

func (v *nuValue) setItems(texts []string) error {
	if len(texts) == 0 || len(texts) > 2 {
		return &wrong{what: fmt.Sprintf("has %d numbers", len(texts))}
	}
	*v.p = [2]float64{lca.Auto, lca.Auto}
	parts := v.parts()
	for i, text := range texts {
		if err := parts[i].set(text); err != nil {
			return &itemError{i, err}
		}
	}
	return nil
}

func (v *nuValue) check() error {
	for i, part := range v.parts() {
		if err := part.check(); err != nil {
			return &itemError{i, err}
		}
	}
	return nil
}

func (v *nuValue) String() string {
	parts := v.parts()
	if v.p[1] == lca.Auto {
		return parts[0].String()
	}
	return "[" + parts[0].String() + ", " + parts[1].String() + "]"
}

func (v *nuValue) want() string {
	parts := v.parts()
	return parts[0].want() + ", or a list of two such"
}

func (v *nuValue) schema() map[string]any {
	one := v.parts()[0]
	number := one.schema()
	list := map[string]any{"type": "array", "minItems": 1, "maxItems": 2, "items": number}
	return map[string]any{"anyOf": []any{number, list, map[string]any{"type": "string", "pattern": "^[^,]+,[^,]+$"}}}
}
