package status

import (
	_ "embed"
	"net/http"
)

// The page is one file: style, script and SVG drawing are in it, so it needs nothing from outside.
//
//go:embed page.html
var pageHTML []byte

func page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(pageHTML)
}
