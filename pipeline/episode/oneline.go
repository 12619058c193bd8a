package episode

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine is a text without what ends a line or steers a terminal: messages are shown as they are, and name series, features and people.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}

// Named returns the name of a series in messages: its value, which may be empty, or the partition for the series of all its rows (nil).
func Named(series *string, partition int32) string {
	switch {
	case series == nil:
		return fmt.Sprintf("partition %d", partition)
	case *series == "":
		return `""`
	}
	return *series
}
