package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages of docs/gallery are those that the program makes: all have its styles and scripts, and what the shortest one says is what comes of its rows.
func TestGallery(t *testing.T) {
	t.Parallel()
	const gallery, series = "../../docs/gallery/", "tep01"
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	files, err := filepath.Abs(gallery)
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`(?m)^GALLERY := (.*)$`).FindStringSubmatch(read("../../Makefile"))
	if made == nil {
		t.Fatal("the Makefile makes no gallery")
	}
	dir, list, fresh := t.TempDir(), read(gallery+"README.md"), ""
	for _, one := range strings.Fields(made[1]) {
		if name, normal, _ := strings.Cut(one, ":"); name == series {
			must(t, dir, "backtest", filepath.Join(files, name+".arrow"), "--labels", "label", "--time=", "--key=", "--until", normal)
			fresh = read(filepath.Join(dir, series+".html"))
		}
	}
	looks := func(page string) []string { // without what it is of
		page = regexp.MustCompile(`(?m)^const facts = .*$`).ReplaceAllString(page, "")
		return regexp.MustCompile(`(?s)<(?:style|script)>.*?</(?:style|script)>`).FindAllString(page, -1)
	}
	verdict := regexp.MustCompile(`<p class="verdict.*`)
	want := looks(fresh)
	for _, one := range strings.Fields(made[1]) {
		name, _, _ := strings.Cut(one, ":")
		page := read(gallery + name + ".html")
		if len(want) == 0 || !slices.Equal(looks(page), want) || len(page) > 500_000 || !strings.Contains(list, "("+name+".html)") {
			t.Errorf("%s.html, of %d bytes, is not as the program makes it, or not in its README: run make gallery", name, len(page))
		}
		if says := verdict.FindAllString(fresh, -1); name == series && (says == nil || !slices.Equal(verdict.FindAllString(page, -1), says)) {
			t.Errorf("%s.html says %q and not %q: run make gallery", name, verdict.FindAllString(page, -1), says)
		}
	}
}
