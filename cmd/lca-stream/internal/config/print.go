package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// header opens the annotated example.
const header = `# Every setting of lca-stream with its default. A file needs only what differs from here.
# Durations are written 5s, 1m30s; sizes 1MiB. Values may name environment variables: ${VAR}, ${VAR:default}.
# Made by "lca-stream config example".
`

// Example is the whole file with every default, each under one line that says why it is there and
// one that says what it may be.
func Example() string {
	var b strings.Builder
	b.WriteString(header)
	write(&b, Keys(Default()), func(indent string, k Key) string {
		return fmt.Sprintf("%s# %s\n%s# %s\n", indent, k.Why, indent, k.want())
	})
	return b.String()
}

// Print is the Config as a file that Load takes again, except that secrets are masked.
func Print(c *Config) string {
	var b strings.Builder
	write(&b, Keys(c), func(indent string, k Key) string {
		if k.Path == "lca.gamma" {
			return indent + "# " + c.forgetting() + "\n"
		}
		return ""
	})
	return b.String()
}

// forgetting says what γ, n and B come to.
func (c *Config) forgetting() string {
	n := float64(c.LCA.PassRows)
	if n < 0 {
		return "γ^(B/n) grows with the rows learnt (pass_rows: auto)"
	}
	kept := math.Pow(c.LCA.Gamma, float64(c.Minibatch.Rows)/n)
	return fmt.Sprintf("each minibatch of %d rows leaves γ^(B/n) = %.4g of what was learnt before; n = %.4g rows", c.Minibatch.Rows, kept, n)
}

// write puts the keys under their sections, each after its comment.
func write(b *strings.Builder, keys []Key, comment func(indent string, k Key) string) {
	open := ""
	for _, k := range keys {
		section, name := parent(k.Path)
		for _, s := range opened(open, section) {
			depth := strings.Count(s, ".")
			_, last := parent(s)
			if depth == 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(b, "%s%s:\n", strings.Repeat("  ", depth), last)
		}
		indent := strings.Repeat("  ", strings.Count(k.Path, "."))
		b.WriteString(comment(indent, k))
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, k.String())
		open = section
	}
}

// opened lists the sections on the way to next that are not on the way to last, outermost first.
func opened(last, next string) []string {
	var all []string
	for s := next; s != "" && s != last && !strings.HasPrefix(last, s+"."); s, _ = parent(s) {
		all = append([]string{s}, all...)
	}
	return all
}

// Schema is the JSON Schema (draft 7, which editors and Helm all know) of the file. Where another type is wanted it
// also takes text with ${VAR}.
func Schema() []byte {
	root := object("lca-stream configuration")
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	for _, k := range Keys(Default()) {
		at := root
		section, name := parent(k.Path)
		if section != "" {
			for part := range strings.SplitSeq(section, ".") {
				inner, ok := at["properties"].(map[string]any)[part].(map[string]any)
				if !ok {
					inner = object("")
					at["properties"].(map[string]any)[part] = inner
				}
				at = inner
			}
		}
		at["properties"].(map[string]any)[name] = k.describe()
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: internal error: schema: " + err.Error()) // maps of strings and numbers only
	}
	return append(out, '\n')
}

func object(title string) map[string]any {
	o := map[string]any{"type": []string{"object", "null"}, "additionalProperties": false, "properties": map[string]any{}}
	if title != "" {
		o["title"], o["type"] = title, "object"
	}
	return o
}

func (k Key) describe() map[string]any {
	s := k.schema()
	if s["type"] != "string" || s["pattern"] != nil {
		s = map[string]any{"anyOf": []any{s, map[string]any{"type": "string", "pattern": `\$\{`}}}
	}
	s["description"] = k.Why + " (" + k.want() + ")"
	s["default"] = k.jsonDefault()
	return s
}

// jsonDefault is the default as JSON has it: a number, a boolean, a list or text.
func (k Key) jsonDefault() any {
	var v any
	if json.Unmarshal([]byte(k.Default), &v) == nil {
		return v
	}
	if inner, ok := strings.CutPrefix(k.Default, "["); ok {
		return split(strings.TrimSuffix(inner, "]"))
	}
	return k.Default
}
