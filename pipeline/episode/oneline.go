package episode

import (
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
