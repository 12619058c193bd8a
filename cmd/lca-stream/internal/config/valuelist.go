package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ListValue is a sequence of different texts under a rule.
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
