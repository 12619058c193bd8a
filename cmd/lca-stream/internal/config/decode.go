package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/lca-stream/lca-stream/internal/typo"
)

// place is where a value or a key stands.
type place struct {
	file         string
	text         string // the line
	line, column int    // from 1
	width        int
	more         bool // it goes on in other lines
}

func (p place) fault(path, message, remedy string) Fault {
	_, rest := cutColumn(p.text, p.column)
	width := max(1, min(p.width, utf8.RuneCountInString(rest))) // not for each place: a line may hold very many
	return Fault{File: p.file, Line: p.line, Column: p.column, Path: path, Message: message, Remedy: remedy, text: p.text, width: width}
}

// says reports whether the line has word at the place.
func (p place) says(word string) bool {
	_, rest := cutColumn(p.text, p.column)
	return strings.HasPrefix(rest, word)
}

// decoder overlays a Config and remembers where each value came from.
type decoder struct {
	config   *Config
	keys     []Key // in the order of the file
	byPath   map[string]Key
	children map[string][]string // section → names directly in it
	places   map[string]place    // path, or path[i] → its value
	bad      map[string]bool     // paths whose value could not be read: not validated again
	replaced map[string]bool     // paths that --set gives: what the file says of them is not judged
	getenv   func(string) (string, bool)
	faults   Faults

	file     string
	document []string // the lines of the file
	anchors  map[string]ast.Node
}

func newDecoder(c *Config, getenv func(string) (string, bool)) *decoder {
	d := &decoder{
		config: c, keys: Keys(c), byPath: map[string]Key{}, children: map[string][]string{},
		places: map[string]place{}, bad: map[string]bool{}, replaced: map[string]bool{}, getenv: getenv,
	}
	for _, k := range d.keys {
		d.byPath[k.Path] = k
		path := k.Path
		for path != "" {
			section, name := parent(path)
			if !slices.Contains(d.children[section], name) {
				d.children[section] = append(d.children[section], name)
			}
			path = section
		}
	}
	return d
}

// parent cuts the last name off a path.
func parent(path string) (section, name string) {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

// lineEnd is what YAML takes for the end of a line.
var lineEnd = regexp.MustCompile("\r\n|\n|\r")

// decode reads one YAML document over the Config.
func (d *decoder) decode(file string, data []byte) {
	d.file, d.document, d.anchors = file, lineEnd.Split(string(data), -1), map[string]ast.Node{}
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return
	}
	var body []ast.Node
	for _, doc := range tree.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType { // such as %YAML 1.2
			body = append(body, doc.Body)
		}
	}
	if len(body) > 1 {
		d.add(body[1], "", "is a second document", "keep one document in a file")
	}
	if len(body) > 0 {
		d.section("", body[0])
	}
}

func (d *decoder) syntax(err error) {
	var s *yaml.SyntaxError
	if !errors.As(err, &s) || s.Token == nil {
		d.faults = append(d.faults, Fault{File: d.file, Message: "cannot be read as YAML", Remedy: "see `lca-stream config example`"})
		return
	}
	d.faults = append(d.faults, d.placeOf(s.Token).fault("", "cannot be read as YAML: "+quotedText.ReplaceAllString(s.Message, mask), "check the indentation and quotes near here"))
}

func (d *decoder) placeOf(t *token.Token) place {
	p := place{file: d.file, line: t.Position.Line, column: t.Position.Column, width: len([]rune(strings.TrimSpace(t.Value)))}
	p.more = strings.ContainsAny(strings.TrimSpace(t.Origin), "\r\n") || t.Type == token.LiteralType || t.Type == token.FoldedType
	if p.line >= 1 && p.line <= len(d.document) {
		p.text = d.document[p.line-1]
	}
	if t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType {
		p.width += 2
	}
	return p
}

func (d *decoder) add(n ast.Node, path, message, remedy string) {
	d.faults = append(d.faults, d.placeOf(firstToken(n)).fault(path, message, remedy))
}

// firstToken is where a node begins; the token of a block mapping is its first colon.
func firstToken(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return n.GetToken()
}

// resolve looks through anchors, aliases and tags.
func (d *decoder) resolve(n ast.Node) ast.Node {
	for range 8 { // no sane file nests them deeper, and an alias cannot lead to itself
		switch v := n.(type) {
		case *ast.AnchorNode:
			d.anchors[v.Name.GetToken().Value] = v.Value
			n = v.Value
		case *ast.AliasNode:
			target, ok := d.anchors[v.Value.GetToken().Value]
			if !ok {
				d.add(n, "", "names no anchor above it", "write the value itself, in quotes if it begins with *")
				return nil
			}
			n = target
		case *ast.TagNode:
			n = v.Value
		default:
			return n
		}
	}
	return nil
}

func (d *decoder) section(path string, n ast.Node) {
	n = d.resolve(n)
	var values []*ast.MappingValueNode
	switch v := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode: // a section whose keys are all commented out
		return
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	default:
		d.add(n, path, "is a section, not a value", "it holds "+strings.Join(d.children[path], ", "))
		return
	}
	seen := map[string]int{}
	for _, v := range values {
		key := v.Key.GetToken()
		name := join(path, key.Value)
		if line, twice := seen[name]; twice {
			d.faults = append(d.faults, d.placeOf(key).fault(name, fmt.Sprintf("is there twice, first in line %d", line), "remove one"))
			continue
		}
		seen[name] = key.Position.Line
		d.entry(path, name, key, v.Value)
	}
}

func (d *decoder) entry(section, path string, key *token.Token, n ast.Node) {
	if _, isSection := d.children[path]; isSection {
		d.section(path, n)
		return
	}
	if _, known := d.byPath[path]; !known {
		d.faults = append(d.faults, d.unknown(d.placeOf(key), path, section, key.Value))
		return
	}
	if !d.replaced[path] {
		d.value(path, key, n)
	}
}

// unknown is the fault of a path that is no key, and may have been one.
func (d *decoder) unknown(at place, path, section, name string) Fault {
	if was, ok := removed[path]; ok {
		return was.fault(at, path)
	}
	return at.fault(path, "is not a key", d.suggest(section, name))
}

// suggest says which key was probably meant.
func (d *decoder) suggest(section, name string) string {
	if name == "<<" {
		return "merge keys are not supported: write the keys out"
	}
	if question := typo.Question(name, d.children[section]); question != "" {
		return question
	}
	var elsewhere []string
	for _, k := range d.keys {
		if _, last := parent(k.Path); last == name {
			elsewhere = append(elsewhere, k.Path)
		}
	}
	if len(elsewhere) > 0 {
		return "did you mean " + strings.Join(elsewhere, " or ") + "?"
	}
	if section == "" {
		return "the keys here are " + strings.Join(d.children[section], ", ")
	}
	return fmt.Sprintf("the keys of %s are %s", section, strings.Join(d.children[section], ", "))
}

// value reads one key's value.
func (d *decoder) value(path string, key *token.Token, n ast.Node) {
	k := d.byPath[path]
	n = d.resolve(n)
	list, isList := k.value.(items)
	switch v := n.(type) {
	case nil:
		d.bad[path] = true
		return
	case *ast.SequenceNode:
		if isList {
			d.list(path, list, v)
			return
		}
		d.refuse(path, n, "a list is not allowed here")
	case *ast.MappingNode, *ast.MappingValueNode:
		d.refuse(path, n, "a section is not allowed here")
	case *ast.NullNode:
		if at := d.placeOf(v.GetToken()); at.line == key.Position.Line && at.says("null") { // the token of nothing says null too
			d.set(path, at, "null")
			return
		}
		d.bad[path] = true
		d.faults = append(d.faults, d.placeOf(key).fault(path, "has no value", "want "+k.want()+`; nothing is written ""`))
	default:
		d.set(path, d.placeOf(n.GetToken()), scalar(n))
	}
}

func (d *decoder) refuse(path string, n ast.Node, message string) {
	d.bad[path] = true
	d.add(n, path, message, "want "+d.byPath[path].want())
}

// scalar is the text of a scalar as it was written, so that 007 stays 007 where text is wanted.
func scalar(n ast.Node) string {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value
	case *ast.LiteralNode:
		return strings.TrimSuffix(v.Value.Value, "\n")
	}
	return n.GetToken().Value
}

func (d *decoder) list(path string, v items, n *ast.SequenceNode) {
	texts := make([]string, 0, len(n.Values))
	for i, item := range n.Values {
		item = d.resolve(item)
		if item == nil {
			d.bad[path] = true
			return
		}
		text, at, ok := d.item(item)
		if !ok {
			d.refuse(path, item, "an item must be a plain value")
			return
		}
		text, err := interpolate(text, d.getenv)
		if err != nil {
			d.wrong(path, at, err)
			return
		}
		d.places[fmt.Sprintf("%s[%d]", path, i)] = at
		texts = append(texts, text)
	}
	d.places[path] = d.placeOf(n.GetToken())
	d.finish(path, v.setItems(texts))
}

// item is the text of one item of a list.
func (d *decoder) item(n ast.Node) (text string, at place, ok bool) {
	switch v := n.(type) {
	case *ast.SequenceNode, *ast.NullNode:
		return "", place{}, false
	case *ast.MappingNode:
		if v.IsFlowStyle || len(v.Values) != 1 {
			return "", place{}, false
		}
		return d.colonItem(v.Values[0])
	case *ast.MappingValueNode:
		return d.colonItem(v)
	}
	return scalar(n), d.placeOf(n.GetToken()), true
}

// colonItem puts host:port together again. Inside {} the parser cuts a plain scalar at a colon even
// where no space follows (https://github.com/goccy/go-yaml/issues/832), so that the list of
// {brokers: [localhost:9092]} holds a mapping.
func (d *decoder) colonItem(n *ast.MappingValueNode) (text string, at place, ok bool) {
	key, colon, value := n.Key.GetToken(), n.Start, n.Value.GetToken()
	if n.Value.Type() == ast.NullType || colon.Position.Line != value.Position.Line || colon.Position.Column+1 != value.Position.Column {
		return "", place{}, false
	}
	at = d.placeOf(key)
	at.width += 1 + len(value.Value)
	return key.Value + ":" + value.Value, at, true
}

// set gives a key the text of a scalar.
func (d *decoder) set(path string, at place, text string) {
	text, err := interpolate(text, d.getenv)
	if err != nil {
		d.wrong(path, at, err)
		return
	}
	d.forgetItems(path)
	d.places[path] = at
	d.finish(path, d.byPath[path].set(text))
}

// forgetItems forgets the places of a list that is replaced.
func (d *decoder) forgetItems(path string) {
	for i := 0; d.places[fmt.Sprintf("%s[%d]", path, i)] != (place{}); i++ {
		delete(d.places, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) finish(path string, err error) {
	if err != nil {
		d.wrong(path, d.placeFor(path, err), err)
	}
}

// placeFor is the place of a value, or of the item that err is about.
func (d *decoder) placeFor(path string, err error) place {
	var item *itemError
	if errors.As(err, &item) {
		if at, ok := d.places[fmt.Sprintf("%s[%d]", path, item.index)]; ok {
			return at
		}
	}
	return d.places[path]
}

// wrong reports a value's own fault, with the range unless the fault says better.
func (d *decoder) wrong(path string, at place, err error) {
	d.bad[path] = true
	message, remedy := err.Error(), ""
	var w *wrong
	if errors.As(err, &w) {
		message, remedy = w.what, w.remedy
	}
	if remedy == "" {
		remedy = "want " + d.byPath[path].want()
	}
	if at.more { // a line without a colon may be of another key
		message = "is a text of several lines that is not allowed"
	}
	if at.file == "" {
		at.file = defaultFile
	}
	d.faults = append(d.faults, at.fault(path, message, remedy))
}
