package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lca-stream/lca-stream/internal/typo"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

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

// oneOfValue is one of a few values, each with a name.
type oneOfValue struct {
	names []string
	name  func() string
	take  func(i int) // the value of names[i]
}

// oneOf takes the names from the values, as fmt prints them, so that they stand where the values are declared.
func oneOf[T comparable](p *T, all ...T) value {
	v := &oneOfValue{name: func() string { return fmt.Sprint(*p) }, take: func(i int) { *p = all[i] }}
	for _, one := range all {
		v.names = append(v.names, fmt.Sprint(one))
	}
	return v
}

func (v *oneOfValue) set(text string) error {
	i := slices.Index(v.names, text)
	if i < 0 {
		return v.refuse(text)
	}
	v.take(i)
	return nil
}

func (v *oneOfValue) check() error {
	if slices.Contains(v.names, v.name()) {
		return nil
	}
	return v.refuse(v.name())
}

func (v *oneOfValue) refuse(name string) error {
	return &wrong{what: fmt.Sprintf("%q is not a choice", name), remedy: typo.Question(name, v.names)}
}

func (v *oneOfValue) String() string         { return quote(v.name()) }
func (v *oneOfValue) want() string           { return "one of " + strings.Join(v.names, ", ") }
func (v *oneOfValue) schema() map[string]any { return map[string]any{"enum": v.names} }

// rule is what some text must look like. remedy says it in words.
type rule struct {
	pattern *regexp.Regexp
	max     int
	remedy  string
	more    func(string) error // a check that a pattern cannot make; nil = none
}

// Rules of text. Kafka's own limits: topic names of 249 letters, digits, '.', '_' and '-'.
var (
	anyText     = rule{pattern: regexp.MustCompile(`^[^\x00-\x1f]*$`), max: 1024, remedy: "text of one line"}
	someText    = rule{pattern: regexp.MustCompile(`^[^\x00-\x1f]+$`), max: 255, remedy: "text of one line, not empty"}
	feature     = rule{pattern: regexp.MustCompile(`^[\s\S]+$`), max: 1024, remedy: "a column's name, not empty", more: utf8Text}
	topic       = rule{pattern: regexp.MustCompile(`^[A-Za-z0-9._-]+$`), max: 249, remedy: "a topic name of A-Z a-z 0-9 . _ -, at most 249 letters", more: notDots}
	maybe       = rule{pattern: regexp.MustCompile(`^[A-Za-z0-9._-]*$`), max: 249, remedy: "a topic name of A-Z a-z 0-9 . _ -, at most 249 letters, or nothing", more: notDots}
	modelName   = rule{pattern: regexp.MustCompile(`^[A-Za-z0-9._-]+$`), max: 200, remedy: "a name of A-Z a-z 0-9 . _ -, at most 200 letters"}
	address     = rule{pattern: regexp.MustCompile(`^[^\x00-\x20]+$`), max: 261, remedy: "an address host:port, such as localhost:9092", more: hostPort(false)}
	hostName    = rule{pattern: regexp.MustCompile(`^(\*|[A-Za-z0-9_-][A-Za-z0-9._-]*)$`), max: 253, remedy: "a host name without a port, or '*'"}
	listen      = rule{pattern: regexp.MustCompile(``), max: 261, remedy: `an address host:port, such as 127.0.0.1:8095 or :8095, or "" for no server`, more: hostPort(true)}
	tokenURL    = rule{pattern: regexp.MustCompile(`^[^\x00-\x20]*$`), max: 1024, remedy: "an address such as https://id.example.com/oauth2/token", more: unlessEmpty(kafkaconn.CheckTokenURL)}
	registryURL = rule{pattern: regexp.MustCompile(`^[^\x00-\x20]*$`), max: 1024, remedy: "an address such as https://registry:8081 or http://registry:8080/apis/ccompat/v7", more: unlessEmpty(registryAddress)}
)

func registryAddress(s string) error {
	_, err := registry.CheckURL(s)
	return err
}

func unlessEmpty(check func(string) error) func(string) error {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return check(s)
	}
}

func utf8Text(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("its name is not UTF-8")
	}
	return nil
}

func notDots(s string) error {
	if s == "." || s == ".." {
		return fmt.Errorf("%q is a name that Kafka refuses", s)
	}
	return nil
}

// hostPort checks host:port; a server's address may lack the host, or be empty altogether.
func hostPort(server bool) func(string) error {
	return func(s string) error {
		if server && s == "" {
			return nil
		}
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return fmt.Errorf("%q is not host:port", s)
		}
		low := 1
		if server {
			low = 0 // the kernel chooses
		}
		if n, err := strconv.Atoi(port); err != nil || n < low || n > 65535 {
			return fmt.Errorf("%q has no port in %d … 65535", s, low)
		}
		if !server && host == "" {
			return fmt.Errorf("%q has no host", s)
		}
		return nil
	}
}

func (r rule) check(s string) error {
	switch {
	case len(s) > r.max:
		return &wrong{what: fmt.Sprintf("is too long: %d bytes, at most %d", len(s), r.max)}
	case s == "" && !r.pattern.MatchString(s):
		return &wrong{what: "is empty"}
	case !r.pattern.MatchString(s):
		return &wrong{what: fmt.Sprintf("%q is not allowed", s)}
	case r.more != nil:
		if err := r.more(s); err != nil {
			return &wrong{what: err.Error()}
		}
	}
	return nil
}

// textValue is text under a rule.
type textValue struct {
	p *string
	r rule
}

func text(p *string, r rule) value { return &textValue{p, r} }

func (v *textValue) set(s string) error {
	*v.p = s
	return nil
}

func (v *textValue) check() error   { return v.r.check(*v.p) }
func (v *textValue) String() string { return quote(*v.p) }
func (v *textValue) want() string   { return v.r.remedy }
func (v *textValue) schema() map[string]any {
	s := map[string]any{"type": "string", "maxLength": v.r.max}
	if of := v.r.pattern.String(); strings.HasPrefix(of, "^[A-Za-z0-9._-]") {
		s["pattern"] = strings.Replace(of, "+$", "*$", 1) + `|\$\{` // a file may leave a name to a variable, or to --set
	}
	return s
}

// secretValue is text that is printed as asterisks, and never quoted in a fault.
type secretValue struct{ p *Secret }

func (v *secretValue) set(s string) error {
	*v.p = Secret(s)
	return nil
}

func (v *secretValue) check() error {
	if len(*v.p) > 1024 {
		return &wrong{what: "is longer than 1024 bytes"}
	}
	return nil
}

func (v *secretValue) String() string { return quote(v.p.String()) }
func (v *secretValue) want() string   { return "text, never printed" }
func (v *secretValue) schema() map[string]any {
	return map[string]any{"type": "string", "maxLength": 1024}
}

// plain is text that YAML reads as a string without quotes, and that a flow list can hold.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./:-]*$`)

// quote writes text so that any YAML reader gives back a string.
func quote(s string) string {
	if plain.MatchString(s) && !strings.HasSuffix(s, ":") && !looksTyped(s) {
		return s
	}
	return strconv.Quote(strings.ReplaceAll(s, "${", "$${"))
}

// looksTyped reports whether some YAML reader would take the plain text for something but a string.
func looksTyped(s string) bool {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return true
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
