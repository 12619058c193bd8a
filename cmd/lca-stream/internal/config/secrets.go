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
	wordPattern = regexp.MustCompile(`(&?[\pL\pN_\\-]+|[^\pL\pN_\\\s"'=:,{}\[-]|""|'')(["']?[\s=:]+)`)

	// keyEnd is what stands between a key and its value, in YAML and in JSON.
	keyEnd = regexp.MustCompile(`^(["']?\s*:(\s|$)|["']\s*:)`)

	// linePattern finds what a line begins with: the name of its key, and what stands between that and its value.
	linePattern = regexp.MustCompile(`^(\s*(?:[-?]\s+)*["']?)([^\s"'{}\[\],:=#]+)(["']?\s*[:=]?\s*)`)
	itemPattern = regexp.MustCompile(`^\s*-(\s|$)`)

	// markPattern is a line without a value.
	markPattern = regexp.MustCompile(`^\s*((---|\.\.\.)?\s*(#|$)|%YAML )`)

	// keyText and hashText are what secrets look like where none should be: the text of a key's file, and what is as long as a hash.
	keyText  = regexp.MustCompile(`-----BEGIN.*`)
	hashText = regexp.MustCompile(`[A-Za-z0-9+/_=-]{40,}`)

	// plainName is a key that is certainly no secret itself, as far as one can see.
	plainName = regexp.MustCompile(`^[\pL._-]{1,24}$`)

	// escapePattern is a character of a quoted key that is written by its number.
	escapePattern = regexp.MustCompile(`\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`)

	// loginPattern finds a login as clients in Java name it: its last word alone says nothing.
	loginPattern = regexp.MustCompile(`(?i)(user[._-]info["']?[\s=:]+)(.+)`)

	// nextPair is what follows a value in {}.
	nextPair = regexp.MustCompile(`[}\]]*,\s*["']?[\pL\pN_-]+["']?\s*:\s`)

	// keyPattern is the beginning of a line with a key of its own.
	keyPattern = regexp.MustCompile(`^\s*(- +)*(["']?[\pL\pN_.-]+["']?\s*:(\s|$)|[}\]#])`)
)

// hideSecrets hides in a document's lines all but the values of settings that are no secrets, whether or not they can be parsed: a document
// whose lines are shown has a fault, which may be in the key of a secret. So the value of a key that is none is hidden, and a line without a key unless
// it goes on with the value of a setting. A value goes to its closing quote, or in {} to the next pair; otherwise to the end of its line and to
// the next one with a key.
func hideSecrets(lines []string) []string {
	safe := make([]string, len(lines))
	open, column := "", 0     // the quote that has not been closed, or "\n" for text without quotes; where its key stands
	below, inside := false, 0 // whether the last key is a setting that is no secret; how many { and [ are open
	for i, line := range lines {
		from, indent := 0, len(line)-len(strings.TrimLeft(line, " \t"))
		switch blank := strings.TrimSpace(line) == ""; {
		case open == "\n" && (indent > column || !keyPattern.MatchString(line)) && !blank:
			safe[i] = line[:indent] + hide(line[indent:])
			continue
		case open == "\n" && !blank:
			open = ""
		case open == `"` || open == "'":
			end := closing(line, open)
			if end < 0 {
				safe[i] = hide(line)
				continue
			}
			from, open = end, ""
		}
		if from == 0 && !markPattern.MatchString(line) {
			name, isKey := lineKey(line)
			secret, known := settings()[name]
			if known {
				below = !secret
			}
			item := inside > 0 || itemPattern.MatchString(line) || strings.ContainsRune("{}[],", rune(line[indent]))
			if !known && (!item || !below) {
				if safe[i], column = hideLine(line, isKey); isKey {
					open = "\n"
				}
				continue
			}
			inside = max(0, inside+nesting(line))
		}
		var key int
		if safe[i], key, open = hideInLine(hideAddress(line), from, open); open != "" && key >= 0 {
			column = key
		}
		if open == "\n" && strings.Contains(line[:max(key, 0)], "#") { // a comment ends with its line
			open = ""
		}
		safe[i] = hideLooks(safe[i])
	}
	return safe
}

// lineKey is the word that a line begins with, and whether it stands as a key.
func lineKey(line string) (name string, isKey bool) {
	m := linePattern.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	return m[2], strings.ContainsAny(m[3], ":=")
}

// hideLine hides a line of no setting, except the beginning of its key, and returns where that stands.
func hideLine(line string, isKey bool) (safe string, column int) {
	if !isKey {
		text := strings.TrimLeft(line, " \t")
		return line[:len(line)-len(text)] + hide(text), 0
	}
	m := linePattern.FindStringSubmatch(line)
	rest := line[len(m[0]):]
	return m[1] + cutName(m[2]) + m[3] + hide(rest), len(m[1])
}

// nesting is how many more { and [ than } and ] a line has outside of quotes.
func nesting(line string) (n int) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '{', '[':
			n++
		case '}', ']':
			n--
		case '"', '\'':
			end := closing(line[i+1:], line[i:i+1])
			if end < 0 {
				return n
			}
			i += 1 + end
		}
	}
	return n
}

// cutName hides the most of a key that is no setting, and may be a secret itself.
func cutName(name string) string {
	if _, known := settings()[name]; known || plainName.MatchString(name) {
		return name
	}
	shows := 0
	for i := range name {
		if shows++; shows > 2 {
			return name[:i] + hide(name[i:])
		}
	}
	return name
}

// cutPath is cutName for each part of a path.
func cutPath(path string) string {
	if _, known := settings()[path]; known {
		return path
	}
	parts := strings.Split(path, ".")
	for i := range parts {
		parts[i] = cutName(parts[i])
	}
	return strings.Join(parts, ".")
}

// hideAssignment is hideSecrets for --set key.path=value.
func hideAssignment(text string) string {
	at := strings.IndexByte(text, '=')
	if at < 0 {
		at = strings.IndexAny(text, ": \t")
	}
	if at < 0 {
		return cutPath(text)
	}
	if secret, known := settings()[text[:at]]; known && !secret && text[at] == '=' {
		return hideWords(text)
	}
	return cutPath(text[:at]) + text[at:at+1] + hide(text[at+1:])
}

// hideWords hides what a text has of secrets that is no document, such as a message.
func hideWords(text string) string {
	safe, _, _ := hideInLine(hideAddress(text), 0, "")
	return hideLooks(safe)
}

// hideLooks hides what looks like a secret: the value of a setting may be one by mistake, such as the text of a file where its path should stand.
func hideLooks(text string) string {
	text = keyText.ReplaceAllStringFunc(text, hide)
	return hashText.ReplaceAllStringFunc(text, func(s string) string {
		if strings.ContainsAny(s, "0123456789") && strings.ToLower(s) != s && strings.ToUpper(s) != s {
			return hide(s)
		}
		return s
	})
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
		said := word == "token" && !strings.ContainsAny(rest[at+m[4]:at+m[5]], ":=") // by YAML's parser, of its own tokens
		_, known := settings()[word]
		unknown := !known && keyEnd.MatchString(rest[at+m[4]:])
		if unknown {
			b.WriteString(rest[at:at+m[2]] + cutName(word) + rest[at+m[3]:value])
		} else {
			b.WriteString(rest[at:value])
		}
		if said || !unknown && !secretName(word) {
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

// settings are settings and sections, those of former releases too, by their paths and by their last names, and whether they hold a secret.
var settings = sync.OnceValue(func() map[string]bool {
	named := map[string]bool{}
	add := func(path string, secret bool) {
		section, name := parent(path)
		named[path], named[name] = secret, secret
		for section != "" {
			named[section] = false
			section, name = parent(section)
			named[name] = false
		}
	}
	for path := range removed {
		add(path, false)
	}
	for _, k := range Keys(&Config{}) {
		_, secret := k.value.(*secretValue)
		add(k.Path, secret)
	}
	return named
})
