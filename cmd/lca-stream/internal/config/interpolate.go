package config

import (
	"fmt"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}`)

// interpolate replaces ${VAR} and ${VAR:default} in one scalar; $${ becomes ${. The replacement is
// not looked into again.
func interpolate(text string, getenv func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		if at > 0 && text[at-1] == '$' {
			b.WriteString(text[:at-1] + "${")
			text = text[at+2:]
			continue
		}
		b.WriteString(text[:at])
		m := variable.FindStringSubmatch(text[at:])
		if m == nil {
			return "", &wrong{"has a ${ that begins no variable", "write ${NAME} or ${NAME:default}, or $${ for a plain ${"}
		}
		value, ok := getenv(m[1])
		switch {
		case ok:
			b.WriteString(value)
		case m[2] != "":
			b.WriteString(m[2][1:])
		default:
			return "", &wrong{fmt.Sprintf("environment variable %s is not set", m[1]), fmt.Sprintf("set it, or give a default: ${%s:default}", m[1])}
		}
		text = text[at+len(m[0]):]
	}
}
