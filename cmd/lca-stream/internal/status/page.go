package status

import (
	_ "embed"
	"net/http"
	"strings"
)

// The page is sent as one file with its style and scripts in it, so it needs nothing from outside.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/charts.js
	chartsJS string
	//go:embed page/page.js
	pageJS string

	wholePage = []byte(strings.NewReplacer("/* page.css */", pageCSS, "/* charts.js */", chartsJS, "/* page.js */", pageJS).Replace(pageHTML))
)

func page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(wholePage)
}
