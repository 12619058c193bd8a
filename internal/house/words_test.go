package house

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package's doc is how a stranger starts: what it is, how to use it, its limits.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	docs := map[string]string{}
	for _, f := range goFiles(t) {
		if f.isTest() || strings.Contains(f.path, "/_") {
			continue
		}
		if _, seen := docs[f.dir()]; !seen {
			docs[f.dir()] = ""
		}
		if f.syntax.Doc != nil {
			if docs[f.dir()] != "" {
				t.Errorf("%s: a second package comment in %s", f.path, f.dir())
			}
			docs[f.dir()] = f.syntax.Doc.Text()
		}
		if text := f.syntax.Doc.Text(); text != "" && f.syntax.Name.Name != "main" && !strings.HasPrefix(text, "Package "+f.syntax.Name.Name+" ") {
			t.Errorf("%s: the package comment must begin %q", f.path, "Package "+f.syntax.Name.Name)
		}
	}
	for dir, doc := range docs {
		if len(strings.Fields(doc)) < 15 {
			t.Errorf("%s: the package comment is missing or says little: %q", dir, doc)
		}
	}
}

// Marks of work that is not done, and of checks that do not check.
func TestNothingIsLeftUndone(t *testing.T) {
	undone := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, f := range goFiles(t) {
		for _, group := range f.syntax.Comments {
			if undone.MatchString(group.Text()) {
				t.Errorf("%s: %s: do it, or say in plain words what the limit is", f.positions.Position(group.Pos()), undone.FindString(group.Text()))
			}
		}
		if !f.isTest() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if ok && (call.Sel.Name == "Skip" || call.Sel.Name == "Skipf" || call.Sel.Name == "SkipNow") && isTesting(call.X) {
				t.Errorf("%s: a test that skips proves nothing: let it fail and say what it needs", f.positions.Position(n.Pos()))
			}
			return true
		})
	}
}

// isTesting reports whether an expression is the t, b or f of a test.
func isTesting(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "b", "f", "tb"}, id.Name)
}

// wording is a turn of phrase that readers stumble over, with what is written instead.
type wording struct {
	pattern *regexp.Regexp
	instead string

	// except are places where the pattern means something else.
	except *regexp.Regexp
}

// units are what something can be counted per.
const units = `(?:row|column|message|second|minute|batch|block|partition|record|step|minibatch|element|feature|neighbour|pass|call|line|process|model)`

// wordList is this file, which has to name what it refuses.
const wordList = "internal/house/words_test.go"

// wordings is the word list. It is held over comments, string literals, pages and configuration, so that help texts,
// error texts and the names of metrics' meanings are included.
var wordings = []wording{
	{
		pattern: regexp.MustCompile(`\b(?:[\d.]+|numbers|[rR]ows|nats|bytes|messages|records|values|objects|points|lines|[nmµ]s|[kM]i?B) an? ` + units + `\b`),
		instead: "per: 3 nats per row",
		except:  regexp.MustCompile(`^numbers a model sees|^numbers a batch as|^[rR]ows a batch holds|^1 MiB a |^records a row`),
	},
	{pattern: regexp.MustCompile(`(?i)\bbut for\b`), instead: "except, or without"},
	{pattern: regexp.MustCompile(`(?i)\b(?:anew|afresh)\b`), instead: "again"},
	{pattern: regexp.MustCompile(`(?i)\blikewise\b`), instead: "also, or say it in full"},
	{pattern: regexp.MustCompile(`(?i)\bfor ever\b`), instead: "forever, or without end"},
	{pattern: regexp.MustCompile(`(?i)\bin force\b`), instead: "current: the current model"},
	{pattern: regexp.MustCompile(`(?i)\b(?:hitherto|whence|thereby|as it were|by the way)\b`), instead: "plain words, or nothing"},
	{pattern: regexp.MustCompile(`(?i)\b(?:nobody|somebody|anybody|everybody|whoever)\b`), instead: "who it is: another process, no reader, a user"},
	{pattern: regexp.MustCompile(`(?i)\bbeside\b`), instead: "next to, together with, in addition to, or besides"},
	{
		pattern: regexp.MustCompile(`, for (?:it|they|there|we|then|nothing|(?:a|an|the|its|their|each|every|no) (?:[\pL]+ ){1,2}(?:is|are|was|were|has|have|takes?|falls?|costs?))\b`),
		instead: "because",
		except:  regexp.MustCompile(`^, for each key that`),
	},
	{
		pattern: regexp.MustCompile(`(?i)\bso many (?:bytes|rows|columns|numbers|records|messages|neighbours|brokers|partitions|lanes|goroutines|members|headers|minibatches|batches|times as many)\b|\bfor so (?:many|much)\b`),
		instead: "the number meant: n rows, limit bytes, that number of partitions",
	},
	{pattern: regexp.MustCompile(`(?i)\b(?:the )?\w+ at hand\b`), instead: "current, or in memory"},
	{pattern: regexp.MustCompile(`(?i)\bmend(?:s|ed|ing)?\b`), instead: "fix, correct, or passes by itself"},
	{pattern: regexp.MustCompile(`(?i)\bstate of mind\b`), instead: "latest figures"},
	{pattern: regexp.MustCompile(`(?i)\bask(?:s|ed|ing)? the memory\b`), instead: "prefetch"},
}

// stumbles returns the places in a text where a wording is used, with the words around it.
func (w wording) stumbles(text string) (found []string) {
	flat := strings.Join(strings.Fields(text), " ")
	for _, at := range w.pattern.FindAllStringIndex(flat, -1) {
		if w.except == nil || !w.except.MatchString(flat[at[0]:]) {
			found = append(found, flat[max(0, at[0]-20):min(len(flat), at[1]+20)])
		}
	}
	return found
}

// prose calls say with each text of a file that people read.
func prose(t *testing.T, say func(where, text string)) {
	t.Helper()
	for _, f := range goFiles(t) {
		if f.isGenerated() || f.path == wordList {
			continue
		}
		for _, group := range f.syntax.Comments {
			say(f.positions.Position(group.Pos()).String(), group.Text())
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				say(f.positions.Position(lit.Pos()).String(), lit.Value)
			}
			return true
		})
	}
	for _, p := range paths(t) {
		if !pageOfText.MatchString(p) || strings.Contains(p, "testdata/") || p == "LICENSE" {
			continue
		}
		say(p, read(t, p))
	}
}

// pageOfText are the files besides Go that people read: pages, configuration, scripts and the status page.
var pageOfText = regexp.MustCompile(`\.(?:md|ya?ml|html|js|css|py|sh|tpl|json)$|^(?:Makefile|Containerfile|\.ci/\w+)$`)

// House words cost every newcomer a second reading: the field's term, in plain English, is in the list.
func TestPlainWords(t *testing.T) {
	prose(t, func(where, text string) {
		for _, w := range wordings {
			for _, found := range w.stumbles(text) {
				t.Errorf("%s: %q: write %s", where, found, w.instead)
			}
		}
	})
}

func TestPlainWordsRefuses(t *testing.T) {
	refused := strings.Split(strings.TrimSpace(`
3.1 nats a row
4 bytes a column
all rows but for the last
the rows are drawn anew
c_l is left out; c_g likewise
retried for ever
the model in force
the learner's state of mind
nobody asks
kept, for it is small
a block of so many rows
the message at hand
mend the producer
kept, for the training error falls slowly
committed beside the offset
it asks the memory for the next panel
`), "\n")
	for _, text := range refused {
		if !slices.ContainsFunc(wordings, func(w wording) bool { return w.stumbles(text) != nil }) {
			t.Errorf("%q passes", text)
		}
	}
}

// A field's comment is read alone, where an editor shows it: it neither continues the one before nor leads to the next.
func TestFieldCommentsStandAlone(t *testing.T) {
	runsOn := regexp.MustCompile(`^(?:and|or|of which|but|nor)\b|(?:,|\b(?:and|or))$`)
	for _, f := range goFiles(t) {
		if f.isGenerated() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				for _, comment := range []*ast.CommentGroup{field.Doc, field.Comment} {
					if text := strings.TrimSpace(comment.Text()); runsOn.MatchString(text) {
						t.Errorf("%s: %q: say what this field is, in a sentence of its own", f.positions.Position(comment.Pos()), text)
					}
				}
			}
			return true
		})
	}
}
