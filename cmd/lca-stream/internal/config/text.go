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

	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

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
	filePath    = rule{pattern: anyText.pattern, max: 1024, remedy: "the path of a file", more: notItsText}
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

// notItsText refuses what a file holds where its path should be: it would be shown as paths are.
func notItsText(s string) error {
	if strings.Contains(s, "-----BEGIN") {
		return errors.New("is the text of a file")
	}
	return nil
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

// listValue is a sequence of different texts under a rule.
type listValue struct {
	p   *[]string
	r   rule
	min int
}

func (v *listValue) set(text string) error { return v.setItems(split(text)) }

func (v *listValue) setItems(texts []string) error {
	*v.p = texts
	return nil
}

func (v *listValue) check() error {
	if len(*v.p) < v.min {
		return &wrong{what: "is empty"}
	}
	seen := make(map[string]bool, len(*v.p))
	for i, s := range *v.p {
		if err := v.r.check(s); err != nil {
			return &itemError{i, err}
		}
		if seen[s] {
			return &itemError{i, &wrong{what: fmt.Sprintf("%q is there twice", s), remedy: "remove one"}}
		}
		seen[s] = true
	}
	return nil
}

func (v *listValue) String() string {
	quoted := make([]string, len(*v.p))
	for i, s := range *v.p {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func (v *listValue) want() string {
	if v.min > 0 {
		return fmt.Sprintf("a list of at least %d: %s", v.min, v.r.remedy)
	}
	return "a list: " + v.r.remedy
}

func (v *listValue) schema() map[string]any {
	list := map[string]any{"type": "array", "minItems": v.min, "uniqueItems": true, "items": map[string]any{"type": "string"}}
	return map[string]any{"anyOf": []any{list, map[string]any{"type": "string"}}}
}

// split cuts a scalar that stands for a list, such as the value of an environment variable.
func split(text string) []string {
	list := []string{}
	if strings.TrimSpace(text) == "" {
		return list
	}
	for item := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(item))
	}
	return list
}

// maxPartition bounds a partition's number, and so the length of a range.
const maxPartition = 99999

// partitionsValue is a sequence of partition numbers and ranges of them, such as [0-3, 7].
type partitionsValue struct{ p *[]int32 }

func (v *partitionsValue) set(text string) error { return v.setItems(split(text)) }

func (v *partitionsValue) setItems(texts []string) error {
	all := []int32{}
	for i, text := range texts {
		low, high, err := partitionRange(text)
		if err != nil {
			return &itemError{i, err}
		}
		for n := low; n <= high; n++ {
			all = append(all, int32(n))
		}
	}
	slices.Sort(all)
	*v.p = all
	return nil
}

func partitionRange(text string) (low, high int, err error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	low, errLow := strconv.Atoi(strings.TrimSpace(first))
	high, errHigh := strconv.Atoi(strings.TrimSpace(last))
	if errLow != nil || errHigh != nil {
		return 0, 0, &wrong{what: fmt.Sprintf("%q is neither a partition nor a range of them", text)}
	}
	if low < 0 || high > maxPartition || low > high {
		return 0, 0, &wrong{what: text + " is out of range"}
	}
	return low, high, nil
}

func (v *partitionsValue) check() error {
	for i, n := range *v.p {
		if n < 0 || n > maxPartition {
			return &wrong{what: fmt.Sprintf("%d is out of range", n)}
		}
		if i > 0 && n == (*v.p)[i-1] {
			return &wrong{what: fmt.Sprintf("partition %d is there twice", n), remedy: "remove one"}
		}
	}
	return nil
}

// String writes runs as ranges.
func (v *partitionsValue) String() string {
	var runs []string
	all := *v.p
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		run := strconv.Itoa(int(all[i]))
		if j > i {
			run += "-" + strconv.Itoa(int(all[j]))
		}
		runs = append(runs, run)
		i = j + 1
	}
	return "[" + strings.Join(runs, ", ") + "]"
}

func (v *partitionsValue) want() string {
	return fmt.Sprintf("a list of partitions 0 … %d and ranges such as 0-3", maxPartition)
}

func (v *partitionsValue) schema() map[string]any {
	one := map[string]any{"type": "string", "pattern": `^[0-9]+(-[0-9]+)?(, ?[0-9]+(-[0-9]+)?)*$`}
	number := map[string]any{"type": "integer", "minimum": 0, "maximum": maxPartition}
	list := map[string]any{"type": "array", "items": map[string]any{"anyOf": []any{number, one}}}
	return map[string]any{"anyOf": []any{list, number, one}}
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
