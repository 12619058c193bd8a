package config

import (
	"fmt"
	"strings"

	"github.com/lca-stream/lca-stream/internal/typo"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
)

// byValue is where the value of a row is: none, key, header:NAME or column:NAME.
type byValue struct{ p *modelkey.By }

// longestName bounds the name of a header or a column, bytes.
const longestName = 1024

func (v *byValue) set(text string) error {
	by, err := modelkey.Parse(text)
	if err != nil {
		place, _, _ := strings.Cut(text, ":")
		return &wrong{what: fmt.Sprintf("%.40q is not a choice", text), remedy: v.meant(place)}
	}
	*v.p = by
	return nil
}

// meant says which choice a text begins like; "" for none.
func (v *byValue) meant(place string) string {
	switch place {
	case "header", "column":
		return "write the name after the colon, such as " + place + ":machine"
	}
	return typo.Question(place, []string{"none", "key", "header:NAME", "column:NAME"})
}

func (v *byValue) check() error {
	if v.p.Name == "" {
		return nil
	}
	if len(v.p.Name) > longestName {
		return &wrong{what: fmt.Sprintf("its name is too long: %d bytes, at most %d", len(v.p.Name), longestName)}
	}
	if strings.TrimSpace(v.p.Name) != v.p.Name {
		return &wrong{what: fmt.Sprintf("%q has white space around its name", v.p), remedy: "remove it"}
	}
	if err := utf8Text(v.p.Name); err != nil {
		return &wrong{what: err.Error()}
	}
	return nil
}

func (v *byValue) String() string { return quote(v.p.String()) }
func (v *byValue) want() string   { return "one of none, key, header:NAME, column:NAME" }
func (v *byValue) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^(none|key|(header|column):[\s\S]+)$`}
}
