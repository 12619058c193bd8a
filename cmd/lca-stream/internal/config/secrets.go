package config

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lca-stream/lca-stream/internal/typo"
)

// hidden stands for a character of a secret. A configuration cannot hold it, and a line keeps its length, so that
// places in it stay right; shown writes the mask instead.
const hidden = "\x00"

// shown replaces what is hidden by the mask, whatever its length.
func shown(line string) string {
	return hiddenRun.ReplaceAllString(line, mask)
}

var (
	hiddenRun = regexp.MustCompile(hidden + "+")

	// userPattern finds the user and the password in an address, also where its scheme is missing, and queryPattern what may hold a key.
	userPattern  = regexp.MustCompile(`://[^\s"']*@|[^\s"':/@,\[{]+:[^\s"']+@`)
	queryPattern = regexp.MustCompile(`(://[^\s?#"']*[?#])([^\s"',}\]]+)`)

	// wordPattern finds what may be the name of a secret, and what separates it from its value: in YAML, JSON, Java's
	// properties and on the command line. An anchor may be the value of a secret elsewhere.
	wordPattern = regexp.MustCompile(`(&?[\pL\pN_\\-]+)(["']?[\s=:]+)`)

	// escapePattern is a character of a quoted key that is written by its number.
	escapePattern = regexp.MustCompile(`\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`)

	// loginPattern finds a login as clients in Java name it: its last word alone says nothing.
	loginPattern = regexp.MustCompile(`(?i)(user[._-]info["']?[\s=:]+)(.+)`)

	// nextPair is what follows a value in {}.
	nextPair = regexp.MustCompile(`[}\]]*,\s*["']?[\pL\pN_-]+["']?\s*:\s`)

	// keyPattern is the beginning of a line with a key of its own.
	keyPattern = regexp.MustCompile(`^\s*(- +)*(["']?[\pL\pN_.-]+["']?\s*:(\s|$)|[}\]#])`)
)

// hideSecrets hides the values of secrets in a document's lines, whether or not they can be parsed, and wherever they stand: a
// document whose lines are shown has a fault, which may be in the key of a secret. The value goes to its closing quote, or in {} to
// the next pair; otherwise to the end of its line and to the next one with a key.
func hideSecrets(lines []string) []string {
	safe := make([]string, len(lines))
	open, column := "", 0 // the quote that has not been closed, or "\n" for text without quotes; where its key stands
	for i, line := range lines {
		from := 0
		switch indent := len(line) - len(strings.TrimLeft(line, " \t")); {
		case open == "\n" && (indent > column || !keyPattern.MatchString(line)) && strings.TrimSpace(line) != "":
			safe[i] = line[:indent] + hide(line[indent:])
			continue
		case open == "\n" && strings.TrimSpace(line) != "":
			open = ""
		case open == `"` || open == "'":
			end := closing(line, open)
			if end < 0 {
				safe[i] = hide(line)
				continue
			}
			from, open = end, ""
		}
		var key int
		if safe[i], key, open = hideInLine(hideAddress(line), from, open); open != "" && key >= 0 {
			column = key
		}
	}
	return safe
}

// hideInLine hides what a line has of secrets, and its first characters, which belong to one of a line before. It returns the
// column of the key whose value goes on after the line, or -1, and what is open then.
func hideInLine(line string, from int, open string) (safe string, column int, goesOn string) {
	var b strings.Builder
	b.WriteString(hide(line[:from]))
	rest := line[from:]
	column, goesOn = -1, open
	for at := 0; ; {
		m := wordPattern.FindStringSubmatchIndex(rest[at:])
		if m == nil {
			b.WriteString(rest[at:])
			return b.String(), column, goesOn
		}
		word, value := rest[at+m[2]:at+m[3]], at+m[1]
		b.WriteString(rest[at:value])
		said := word == "token" && !strings.ContainsAny(rest[at+m[4]:at+m[5]], ":=") // by YAML's parser, of its own tokens
		if said || !secretName(word) {
			at = value
			continue
		}
		column = from + at + m[2]
		end := len(rest)
		goesOn = "\n"
		if value < end && (rest[value] == '"' || rest[value] == '\'') {
			quote := rest[value : value+1]
			if n := closing(rest[value+1:], quote); n >= 0 {
				end, goesOn = value+1+n+1, ""
			} else {
				goesOn = quote
			}
		} else if next := nextPair.FindStringIndex(rest[value:]); next != nil && strings.Contains(rest[:value], "{") {
			end, goesOn = value+next[0], ""
		}
		b.WriteString(hide(rest[value:end]))
		at = end
	}
}

// closing returns where a quote ends the text before it, -1 where none does: ” and \" are characters of it.
func closing(text, quote string) int {
	for i := 0; i < len(text); i++ {
		switch {
		case quote == `"` && text[i] == '\\', quote == "'" && strings.HasPrefix(text[i:], "''"):
			i++
		case text[i] == quote[0]:
			return i
		}
	}
	return -1
}

// hide replaces each character.
func hide(text string) string { return strings.Repeat(hidden, utf8.RuneCountInString(text)) }

// hideAddress hides a login, and a query in addresses.
func hideAddress(text string) string {
	text = userPattern.ReplaceAllStringFunc(text, func(s string) string {
		login := strings.TrimPrefix(s, "://")
		return s[:len(s)-len(login)] + hide(login[:len(login)-1]) + "@"
	})
	if m := loginPattern.FindStringSubmatchIndex(text); m != nil {
		text = text[:m[4]] + hide(text[m[4]:])
	}
	return queryPattern.ReplaceAllStringFunc(text, func(s string) string {
		at := strings.IndexAny(s, "?#") + 1
		return s[:at] + hide(s[at:])
	})
}

// secretName reports whether a word may name a secret, however it is spelt; a setting that holds none does not.
func secretName(word string) bool {
	if strings.HasPrefix(word, "&") {
		return true
	}
	if secret, known := settings()[word]; known {
		return secret
	}
	word = strings.ToLower(escapePattern.ReplaceAllStringFunc(word, func(s string) string {
		number, _ := strconv.ParseUint(s[2:], 16, 32)
		return string(rune(number))
	}))
	parts := strings.FieldsFunc(word, func(r rune) bool { return r == '_' || r == '-' })
	joined := strings.Join(parts, "")
	for _, has := range []string{"pass", "pwd", "secret", "credential", "token", "apikey", "privatekey", "bearer", "authorization"} {
		if strings.Contains(joined, has) {
			return true
		}
	}
	for _, part := range append(parts, joined) {
		if typo.Nearest(part, []string{"password", "passwd", "passphrase", "secret", "clientsecret"}) != "" {
			return true
		}
	}
	return false
}

// settings are the last names of settings and sections, and whether they hold a secret.
var settings = sync.OnceValue(func() map[string]bool {
	named := map[string]bool{}
	for _, k := range Keys(&Config{}) {
		section, name := parent(k.Path)
		_, named[name] = k.value.(*secretValue)
		for section != "" {
			section, name = parent(section)
			named[name] = false
		}
	}
	return named
})
