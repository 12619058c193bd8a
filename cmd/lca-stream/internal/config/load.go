package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a configuration file, bytes.
const maxFile = 1 << 20

// What a Fault gives as its file where there is none.
const (
	stdinFile   = "<stdin>"
	setFile     = "--set"
	defaultFile = "<default>"
)

// Input is what a Config is made from.
type Input struct {
	File   string                      // path; "-" reads Stdin; "" = the defaults alone
	Stdin  io.Reader                   // for File "-"
	Set    []string                    // key.path=value, in order, after the file
	Getenv func(string) (string, bool) // os.LookupEnv
}

// Default is the Config of an empty file.
func Default() *Config {
	c := &Config{}
	for _, k := range Keys(c) {
		text := k.Default
		if unquoted, ok := strings.CutPrefix(text, `"`); ok {
			text = strings.TrimSuffix(unquoted, `"`)
		}
		text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
		if err := k.set(text); err != nil {
			panic(fmt.Sprintf("config: internal error: default of %s: %v", k.Path, err))
		}
	}
	return c
}

// Load reads the file over the defaults, then applies Set, then validates. Its error is a Faults
// with every fault, or the error of reading the file.
func Load(in Input) (*Config, error) {
	c := Default()
	d := newDecoder(c, in.Getenv)
	for _, assignment := range in.Set {
		path, _, _ := strings.Cut(assignment, "=")
		d.replaced[path] = true
	}
	if in.File != "" {
		name, data, err := read(in)
		if err != nil {
			return nil, err
		}
		d.decode(name, data)
	}
	for _, assignment := range in.Set {
		d.assign(assignment)
	}
	d.keyedDefaults()
	d.validate()
	if len(d.faults) > 0 {
		d.hideSecrets()
		slices.SortStableFunc(d.faults, func(a, b Fault) int {
			return cmp.Or(a.rank()-b.rank(), a.Line-b.Line, a.Column-b.Column)
		})
		return nil, d.faults
	}
	return c, nil
}

// keyedDefaults gives what was not set the default that it has where each value has a model of its own.
func (d *decoder) keyedDefaults() {
	if !d.config.Model.By.Keyed() {
		return
	}
	for path, text := range keyedDefaults {
		if _, given := d.places[path]; !given && !d.bad[path] {
			d.finish(path, d.byPath[path].set(text))
		}
	}
}

// rank puts the file before --set, and --set before defaults.
func (f Fault) rank() int { return slices.Index([]string{setFile, defaultFile}, f.File) }

func read(in Input) (name string, data []byte, err error) {
	name, from := in.File, in.Stdin
	if in.File == "-" {
		name = stdinFile
	} else {
		f, err := os.Open(in.File)
		if err != nil {
			return name, nil, fault(name, err)
		}
		defer f.Close()
		from = f
	}
	data, err = io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return name, nil, fault(name, err)
	}
	if len(data) > maxFile {
		return name, nil, Faults{{File: name, Message: fmt.Sprintf("is larger than %s", size(maxFile)), Remedy: "is this the configuration?"}}
	}
	if wide := bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")); wide || bytes.IndexByte(data, 0) >= 0 {
		return name, nil, Faults{{File: name, Message: "is not UTF-8 text", Remedy: "save it as UTF-8; some editors and shells of Windows write UTF-16"}}
	}
	return name, bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil // the mark that some editors put at the beginning
}

// fault turns an error of the file system into a Fault: the path once, then the reason.
func fault(name string, err error) error {
	remedy := "check the path and its permissions"
	if errors.Is(err, os.ErrNotExist) {
		remedy = "write one with `lca-stream init TOPIC -o " + name + "`"
	}
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return Faults{{File: name, Message: "cannot be read: " + err.Error(), Remedy: remedy}}
}

// assign applies one --set. The value is taken as it is, not as YAML: the shell has had its turn.
func (d *decoder) assign(assignment string) {
	path, text, ok := strings.Cut(assignment, "=")
	at := place{file: setFile, text: assignment, line: 1, column: 1, width: max(1, len([]rune(path)))}
	d.file = setFile
	if !ok {
		d.faults = append(d.faults, at.fault("", fmt.Sprintf("%q has no =", shown(hideAssignment(assignment))), "write --set key.path=value"))
		return
	}
	if names, isSection := d.children[path]; isSection {
		d.faults = append(d.faults, at.fault(path, "is a section, not a value", "it holds "+strings.Join(names, ", ")))
		return
	}
	k, known := d.byPath[path]
	if !known {
		section, name := parent(path)
		if _, isSection := d.children[section]; !isSection {
			section, name = "", strings.Split(path, ".")[0]
		}
		d.faults = append(d.faults, d.unknown(at, path, section, name))
		return
	}
	at.column, at.width = len([]rune(path))+2, max(1, len([]rune(text)))
	list, isList := k.value.(items)
	if open, closed := strings.HasPrefix(text, "["), strings.HasSuffix(text, "]"); isList && open && !closed {
		d.faults = append(d.faults, at.fault(path, "begins with [ and does not end with ]", "write [a, b] or a,b, with quotes for the shell"))
		return
	} else if isList && open {
		if texts, ok := d.flowList(text); ok {
			d.setList(path, at, list, texts)
			return
		}
		text = text[1 : len(text)-1]
	}
	d.set(path, at, text)
}

// flowList reads the items of a list as it stands in a YAML file, quotes and all; false: it is not YAML, such as
// [x[0],x[1]].
func (d *decoder) flowList(text string) (texts []string, ok bool) {
	tree, err := parser.ParseBytes([]byte(text), 0)
	if err != nil || len(tree.Docs) != 1 {
		return nil, false
	}
	list, ok := tree.Docs[0].Body.(*ast.SequenceNode)
	if !ok {
		return nil, false
	}
	texts = []string{}
	for _, n := range list.Values {
		item, _, ok := d.item(n)
		if !ok {
			return nil, false
		}
		texts = append(texts, item)
	}
	return texts, true
}

// setList gives a key the items of a list that has one place for all of them.
func (d *decoder) setList(path string, at place, list items, texts []string) {
	for i := range texts {
		var err error
		if texts[i], err = interpolate(texts[i], d.getenv); err != nil {
			d.wrong(path, at, err)
			return
		}
	}
	d.forgetItems(path)
	d.places[path] = at
	d.finish(path, list.setItems(texts))
}
