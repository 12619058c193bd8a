package config

import (
	"regexp"
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

	// wordPattern is a word of a line, and what follows if it is a key: a value of one word, or a list of such. YAML's signs between words are always shown.
	wordPattern = regexp.MustCompile(`([^\s{}\[\],:"'=#|>-][^\s{}\[\],:"'=#]*)(?:(["']?\s*[:=])(\s*(?:[\w./-]+|\[[\w./ ,-]*\]))?)?`)

	// userPattern finds the user and the password in an address, also where its scheme is missing, and queryPattern what may hold a key.
	userPattern  = regexp.MustCompile(`://[^\s"']*@|[^\s"':/@,\[{]+:[^\s"']+@`)
	queryPattern = regexp.MustCompile(`(://[^\s?#"']*[?#])([^\s"',}\]]+)`)

	// keyText and hashText are what secrets look like where none should be: the text of a key's file, and what is as long as a hash.
	keyText  = regexp.MustCompile(`-----BEGIN.*`)
	hashText = regexp.MustCompile(`[A-Za-z0-9+/_=-]{40,}`)

	// plainName is a key that is certainly no secret itself, as far as one can see.
	plainName = regexp.MustCompile(`^[\pL._-]{1,24}$`)

	// quotedText is what YAML's parser quotes of a document.
	quotedText = regexp.MustCompile(`"[^"]{2,}"`)
)

// hideSecrets leaves of a line with a fault what a person needs to find it: YAML's signs, the names of settings and their values where they are of one word,
// and what is at fault, unless its setting holds a secret. All else may be a secret whose name or quotes are misspelt.
func (d *decoder) hideSecrets() {
	lines := map[int]safeLine{} // by their numbers: a line may have very many faults
	for i := range d.faults {
		f := &d.faults[i]
		switch safe, done := lines[f.Line]; {
		case f.File == setFile:
			f.before, f.rest = near(cutColumn(hideAssignment(f.text), f.Column))
		case f.Line > 0:
			if !done {
				safe = safeLine{hideLine(f.text), secretIn(f.text)}
				lines[f.Line] = safe
			}
			d.showFault(f, safe)
		}
		f.text = ""
		f.Message, f.Remedy = shown(hideLooks(f.Message)), shown(hideLooks(f.Remedy))
		f.Path = shown(cutPath(f.Path))
	}
}

// safeLine is a line, all hidden in it that may be a secret, and where the first name of one ends.
type safeLine struct {
	text   string
	secret int
}

// hideLine hides the words of a line that are no names of settings, nor values of them.
func hideLine(line string) string {
	return wordPattern.ReplaceAllStringFunc(line, func(s string) string {
		m := wordPattern.FindStringSubmatch(s)
		switch kind := settings()[m[1]]; {
		case kind == unnamed || m[2] == "":
			return hide(m[1]) + m[2] + hideLine(m[3])
		case kind == holdsValue:
			return m[1] + m[2] + hideLooks(m[3])
		default:
			return m[1] + m[2] + hideLine(m[3])
		}
	})
}

// showFault puts what is at fault back into the line: a value, or the name of an unknown key, unless a secret before it may go on there.
func (d *decoder) showFault(f *Fault, safe safeLine) {
	before, rest := cutColumn(f.text, f.Column)
	what, _ := cutColumn(rest, f.width+1)
	f.before, f.rest = near(cutColumn(safe.text, f.Column))
	switch kind := settings()[f.Path]; {
	case kind == holdsValue:
		what = hideLooks(what)
	case kind != unnamed || f.Path == "":
		return
	case len(before) >= safe.secret:
		section, _ := parent(f.Path)
		f.Path = join(section, mask)
		return
	default:
		what = cutName(what)
	}
	_, after := cutColumn(f.rest, f.width+1)
	f.rest = what + after
}

// secretIn is where the first name of a secret ends in a text, however it is spelt.
func secretIn(text string) int {
	for _, at := range wordPattern.FindAllStringSubmatchIndex(text, -1) {
		if typo.Nearest(strings.ToLower(text[at[2]:at[3]]), []string{"password", "passwd", "secret", "client_secret"}) != "" {
			return at[3]
		}
	}
	return len(text) + 1
}

// cutName hides the most of a key that is no setting, and may be a secret itself.
func cutName(name string) string {
	if settings()[name] != unnamed || plainName.MatchString(name) {
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
	if settings()[path] != unnamed {
		return path
	}
	parts := strings.Split(path, ".")
	for i := range parts {
		if parts[i] != mask {
			parts[i] = cutName(parts[i])
		}
	}
	return strings.Join(parts, ".")
}

// hideAssignment leaves of --set key.path=value what is no secret.
func hideAssignment(text string) string {
	at := strings.IndexByte(text, '=')
	if at < 0 {
		at = strings.IndexAny(text, ": \t")
	}
	if at < 0 {
		return cutPath(text)
	}
	if settings()[text[:at]] == holdsValue && text[at] == '=' {
		return hideLooks(text)
	}
	return cutPath(text[:at]) + text[at:at+1] + hide(text[at+1:])
}

// hideLooks hides what looks like a secret: the value of a setting may be one by mistake, such as the text of a file where its path should
// stand, or hold one, such as an address with a login or a query.
func hideLooks(text string) string {
	text = userPattern.ReplaceAllStringFunc(text, func(s string) string {
		login := strings.TrimPrefix(s, "://")
		return s[:len(s)-len(login)] + hide(login[:len(login)-1]) + "@"
	})
	text = queryPattern.ReplaceAllStringFunc(text, func(s string) string {
		at := strings.IndexAny(s, "?#") + 1
		return s[:at] + hide(s[at:])
	})
	text = keyText.ReplaceAllStringFunc(text, hide)
	return hashText.ReplaceAllStringFunc(text, func(s string) string {
		if strings.ContainsAny(s, "0123456789") && strings.ToLower(s) != s && strings.ToUpper(s) != s {
			return hide(s)
		}
		return s
	})
}

// hide replaces each character.
func hide(text string) string { return strings.Repeat(hidden, utf8.RuneCountInString(text)) }

// kindOfName says what a name in a configuration may stand before.
type kindOfName int

const (
	unnamed      kindOfName = iota // it is no name of ours
	holdsSection                   // settings
	holdsValue                     // what is no secret
	holdsSecret
)

// settings are settings and sections, those of former releases too, by their paths and by their last names.
var settings = sync.OnceValue(func() map[string]kindOfName {
	named := map[string]kindOfName{}
	add := func(path string, kind kindOfName) {
		for ; path != ""; kind = holdsSection {
			section, name := parent(path)
			named[path], named[name] = max(named[path], kind), max(named[name], kind)
			path = section
		}
	}
	for path := range removed {
		add(path, holdsValue)
	}
	for _, k := range Keys(&Config{}) {
		kind := holdsValue
		if _, secret := k.value.(*secretValue); secret {
			kind = holdsSecret
		}
		add(k.Path, kind)
	}
	return named
})
