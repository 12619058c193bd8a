// Package typo finds the name that was probably meant:
//
//	typo.Nearest("sensr", []string{"sensor", "source"}) // "sensor"
//	typo.Question("sensr", names)                        // `did you mean "sensor"?`, or ""
//	typo.Sort("presure_bar", columns)                    // the most similar first
//
// All commands, flags, topics, columns and settings use it, so that one rule decides how much a name may differ.
package typo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the name that text is most likely a misspelling of; "" if none is near: one letter in three may
// differ. Case does not count. Of names that are equally near, one with the same first letter is meant: first letters
// are seldom wrong.
func Nearest(text string, names []string) string {
	best, least := "", min((len(text)+2)/3+1, len(text)) // where all letters differ, nothing is similar
	text = strings.ToLower(text)
	for _, name := range names {
		d := distance(text, strings.ToLower(name))
		if d < least || d == least && best != "" && !sameStart(text, best) && sameStart(text, name) {
			best, least = name, d
		}
	}
	return best
}

// sameStart reports whether a name begins with the first letter of a text in lower case, which is not empty.
func sameStart(text, name string) bool { return strings.HasPrefix(strings.ToLower(name), text[:1]) }

// Question asks whether the nearest name was meant; "" if none is near.
func Question(text string, names []string) string {
	if near := Nearest(text, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// Sort returns the names with the most similar to text first; names that are equally similar keep their order.
func Sort(text string, names []string) []string {
	text = strings.ToLower(text)
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int {
		return cmp.Compare(distance(text, strings.ToLower(a)), distance(text, strings.ToLower(b)))
	})
	return sorted
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	before, last, this := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		this[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			this[j] = min(last[j]+1, this[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				this[j] = min(this[j], before[j-2]+1)
			}
		}
		before, last, this = last, this, before
	}
	return last[len(b)]
}
