package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/status"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// pagePatience bounds every wait of the browser test; a loaded machine needs some of it.
const pagePatience = 4 * time.Minute

// TestPageInABrowser looks at the status page of a running demo as a person does. Screenshots are
// left in build/screenshots; with -update, one of them becomes the picture of the README.
func TestPageInABrowser(t *testing.T) {
	b := startBrowser(t)
	d := startDemo(t)
	b.open(t, d.url)

	eval[bool](t, b, `window.sameDocument = true`)
	b.wait(t, `latest.model && latest.model.choice && latest.throughput.length > 8 && latest.history.length > 6 && latest.model.d_parzen === 2 && !document.getElementById('card-strangest').hidden`)
	moving := eval[string](t, b, `(window.place = () => [...document.querySelectorAll('#after circle')].map(c => c.getAttribute('cx')).join())()`)
	b.wait(t, fmt.Sprintf(`place() !== %q`, moving))
	if !eval[bool](t, b, `window.sameDocument === true`) {
		t.Error("the page reloads itself")
	}

	numbersAgree(t, b)
	hovers(t, b)
	withoutEmptyCards(t, b)
	timesApart(t, b)
	modelTable(t, b)
	nothingContradicts(t, b)
	if *update {
		b.look(t, "light", 1280)
		b.do(t, protocol(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 1040, DeviceScaleFactor: 1}))
		b.screenshot(t, "docs/status-page.png", chromedp.CaptureScreenshot())
	}
	eval[bool](t, b, `(() => { const real = ask; ask = async what => ({ ...await real(what), ...(what === 'status' ? { `+threeInstances+` } : {}) }); return true })()`)
	b.wait(t, `!document.getElementById('card-instances').hidden`)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{400, 1280} {
			b.look(t, scheme, width)
			legible(t, b, scheme, width)
			b.screenshot(t, fmt.Sprintf("build/screenshots/status-%s-%d.png", scheme, width), chromedp.FullScreenshot(100))
		}
	}
	longNames(t, b)
	if faults := b.faults(); len(faults) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(faults, "\n"))
	}
}

// nothingContradicts shows rows and choices that a page could say two things about.
func nothingContradicts(t *testing.T, b *browser) {
	t.Helper()
	row := `{ time: '2026-11-23T22:55:00Z', source: { topic: 't', partition: 0, offset: 1, row: 0 }, model_id: 'm', version: 1, score: 9, why: [], least_p: 1 / 30000, p: `
	for p, says := range map[string]string{"5.57e-8": "less than once in 30,000: ", "1e-12": "less than once in 30,000: ", "0.0001": " once in 10,000: ", "0.5": " once in 2: "} {
		if got := eval[string](t, b, `(() => { strangest({ rows: [`+row+p+` }] }); return document.querySelector('#strangest small').textContent })()`); !strings.Contains(got, says) {
			t.Errorf("p %s is shown as %q, want %q", p, got, says)
		}
	}
	trial := func(name string, nll float64, taken bool) string {
		return fmt.Sprintf(`{ name: '%s', nll: %v, taken: %v, d_parzen: 3, kernel: 'gaussian' }`, name, nll, taken)
	}
	for candidates, explains := range map[string]bool{
		trial("current", 3, true) + "," + trial("other", 2.99, false): true,
		trial("current", 3, true) + "," + trial("other", 3.01, false): false,
		trial("current", 3, false) + "," + trial("other", 2.9, true):  false,
	} {
		about := eval[string](t, b, `(() => { choice({ rows: 1000, candidates: [`+candidates+`] }); const text = document.getElementById('choice-about').textContent; choice(latest.model.choice); return text })()`)
		if strings.Contains(about, "does not lead surely") != explains || !strings.Contains(about, "lower is better") {
			t.Errorf("of %s the page says %q", candidates, about)
		}
	}
}

// timesApart draws the turns of the first few models: their times stand next to each other, however many there are.
func timesApart(t *testing.T, b *browser) {
	t.Helper()
	for models := 1; models <= 8; models++ {
		overlap := eval[string](t, b, fmt.Sprintf(`(() => {
			drift(Array.from({ length: %d }, (_, i) => ({ version: i, published: '2026-11-23T22:55:0' + i + 'Z', turned_radians: [.1] })));
			const texts = [...document.querySelectorAll('#drift text')].map(e => [e.textContent, e.getBoundingClientRect()]);
			const pair = texts.flatMap(([a, r], i) => texts.slice(i + 1).filter(([, s]) => r.left < s.right && s.left < r.right && r.top < s.bottom && s.top < r.bottom).map(([c]) => a + ' and ' + c));
			drift(latest.history);
			return pair.join(', ');
		})()`, models))
		if overlap != "" {
			t.Errorf("of %d models %s overlap", models, overlap)
		}
	}
}

// numbersAgree compares what is shown with the answer that it was made of, digit by digit. Both come from one look, because
// the stream goes on.
func numbersAgree(t *testing.T, b *browser) {
	t.Helper()
	type look struct {
		Answer string
		Shown  map[string]string
		Drawn  map[string]int
	}
	seen := eval[look](t, b, `(() => ({
		Answer: JSON.stringify(latest),
		Shown: Object.fromEntries([...document.querySelectorAll('[id]')].map(e => [e.id, e.textContent])),
		Drawn: Object.fromEntries(['#spectrum circle', '#drift rect', '#directions li', '#curve path.one', '#throughput path.one', '#scores path.mark', '#choice li', '#choice .taken', '#strangest li', '#before circle', '#after circle', '#after circle.l1'].map(s => [s, document.querySelectorAll(s).length])),
	}))()`)
	var s status.Status
	if err := json.Unmarshal([]byte(seen.Answer), &s); err != nil {
		t.Fatal(err)
	}
	turned := 0 // the first model of all has not turned; the history of a long demo has forgotten it
	for _, h := range s.History {
		if len(h.Turned) > 0 {
			turned++
		}
	}
	whole := func(v uint64) string { return thousands(strconv.FormatUint(v, 10)) }
	three := func(v status.Number) string { return strconv.FormatFloat(float64(v), 'f', 3, 64) }
	behind, parts := int64(0), ""
	for _, p := range []string{"0", "1", "2"} {
		behind += s.Lag[p]
		parts += p + ": " + whole(uint64(s.Lag[p]))
	}
	for id, want := range map[string]string{
		"in": whole(s.Rows.In), "learnt": whole(s.Rows.Learnt), "skipped": whole(s.Rows.Skipped), "out": whole(s.Rows.Out),
		"snapshots": whole(s.Rows.Snapshots), "version": whole(s.Model.Version),
		"d": strconv.Itoa(s.Model.Dim), "dp": strconv.Itoa(s.Model.Parzen), "dg": strconv.Itoa(s.Model.Gaussian),
		"nll": three(s.Learner.NLL), "gnll": three(s.Learner.Gaussian), "gain": three(s.Learner.Gaussian - s.Learner.NLL), "eff": whole(uint64(math.Round(float64(s.Learner.Effective)))),
		"lag": parts, "lag-sum": whole(uint64(behind)), "dead": "0", "state": "ready", "summary": s.Summary,
	} {
		if shown := seen.Shown[id]; shown != want {
			t.Errorf("#%s is %q, want %q", id, shown, want)
		}
	}
	if names := seen.Shown["names"]; !strings.Contains(names, s.Source) || !strings.Contains(names, s.Output) || !strings.Contains(names, s.Group) {
		t.Errorf("the page works on %q, want %+v", names, s.Names)
	}
	for what, want := range map[string]int{
		"#spectrum circle": len(s.Model.Eigenvalues), "#drift rect": turned, "#directions li": min(s.Model.Parzen, 8), "#curve path.one": 1, "#throughput path.one": 1,
		"#scores path.mark": len(s.Scores), "#choice li": min(len(s.Model.Choice.Candidates), 8), "#choice .taken": 1, "#strangest li": 6,
		"#before circle": len(s.Scatter.Before), "#after circle": len(s.Scatter.After),
	} {
		if n := seen.Drawn[what]; n != want {
			t.Errorf("%d of %s, want %d", n, what, want)
		}
	}
	if len(s.Scatter.After) < 300 {
		t.Errorf("%d points in the scatter", len(s.Scatter.After))
	}
	if unknown := slices.Index(s.Scatter.Labels, -1); unknown >= 0 || seen.Drawn["#after circle.l1"] == 0 {
		t.Errorf("row %d has no label, %d are of label 1", unknown, seen.Drawn["#after circle.l1"])
	}
}

// hovers checks that each picture says its values under the pointer, and takes them away again.
func hovers(t *testing.T, b *browser) {
	t.Helper()
	for id, want := range map[string]string{
		"spectrum": "direction", "curve": "nats per row", "throughput": "rows read per second", "drift": "version", "scores": "expected", "before": "sensor_", "after": "label",
	} {
		tip := eval[string](t, b, fmt.Sprintf(`(() => {
			const box = document.getElementById(%q).getBoundingClientRect();
			document.getElementById(%[1]q).dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }));
			return document.getElementById('tip').hidden ? 'hidden' : document.getElementById('tip').textContent;
		})()`, id))
		if !strings.Contains(tip, want) {
			t.Errorf("%s says %q under the pointer, want %q in it", id, tip, want)
		}
	}
	if !eval[bool](t, b, `(document.body.dispatchEvent(new PointerEvent('pointermove', { bubbles: true })), document.getElementById('tip').hidden)`) {
		t.Error("the value stays when the pointer has left")
	}
}

func thousands(digits string) string {
	return regexp.MustCompile(`(\d)(\d{3})$`).ReplaceAllString(digits, "$1,$2")
}

// legible checks that nothing hangs over the edge, and that all text stands out from what is behind
// it: 4.5 to 1, as WCAG 2 asks for text of this size.
func legible(t *testing.T, b *browser, scheme string, width int64) {
	t.Helper()
	type findings struct {
		Scroll, Inner int64
		Faint         []string
	}
	found := eval[findings](t, b, `(() => {
		const lum = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2] };
		const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c) && c !== 'transparent') return c } return 'rgb(255, 255, 255)' };
		const faint = [];
		for (const e of document.querySelectorAll('h1, h2, p, small, dt, dd, b, a, span.chip, #lag span, #state, figcaption, svg text')) {
			if (!e.textContent.trim()) continue;
			const style = getComputedStyle(e), a = lum(e.namespaceURI.endsWith('svg') ? style.fill : style.color), z = lum(behind(e));
			const contrast = (Math.max(a, z) + .05) / (Math.min(a, z) + .05);
			if (contrast < 4.5) faint.push(e.tagName + ' "' + e.textContent.slice(0, 20) + '" ' + contrast.toFixed(2));
		}
		return { Scroll: document.documentElement.scrollWidth, Inner: window.innerWidth, Faint: faint };
	})()`)
	if found.Inner != width || found.Scroll > width {
		t.Errorf("%s, %d wide: the page is %d wide in a window of %d", scheme, width, found.Scroll, found.Inner)
	}
	if len(found.Faint) > 0 {
		t.Errorf("%s, %d wide: too faint to read:\n%s", scheme, width, strings.Join(found.Faint, "\n"))
	}
}

// demoProcess is `lca-stream demo --keep` in this process.
type demoProcess struct {
	url    string
	cancel context.CancelFunc
	ended  chan int
	output *transcript
}

func startDemo(t *testing.T) *demoProcess {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := &demoProcess{cancel: cancel, ended: make(chan int, 1), output: &transcript{said: make(chan struct{}, 1)}}
	p := &app.Program{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: d.output, Getenv: os.LookupEnv}
	go func() {
		d.ended <- execute(ctx, p, []string{"demo", "--keep", "--pace", "20s", "--http", "127.0.0.1:0"})
	}()
	t.Cleanup(func() { d.stop(t) })
	d.await(t, "Live page: ")
	d.url = regexp.MustCompile(`http://\S+/`).FindString(d.output.String())
	return d
}

// await waits until the demo has said something.
func (d *demoProcess) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(pagePatience)
	for !strings.Contains(d.output.String(), text) {
		select {
		case <-d.output.said:
		case code := <-d.ended:
			t.Fatalf("the demo ended with code %d:\n%s", code, d.output)
		case <-timeout:
			t.Fatalf("no %q in:\n%s", text, d.output)
		}
	}
}

func (d *demoProcess) stop(t *testing.T) {
	if d.cancel == nil {
		return
	}
	d.cancel()
	d.cancel = nil
	if code := <-d.ended; code != app.ExitDone {
		t.Errorf("the demo ended with code %d:\n%s", code, d.output)
	}
}

// transcript keeps what is written, and tells when there is more.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
	said chan struct{}
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.said <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// browser is one tab of a browser without a screen.
type browser struct {
	tab context.Context //nolint:containedctx // a tab of chromedp is a context

	mu     sync.Mutex
	errors []string
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(testtools.Chromium(t)),
		chromedp.NoSandbox, // tests may run as root, or where user namespaces are forbidden; the page is our own
		chromedp.WSURLReadTimeout(pagePatience),
	)
	process, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(process)
	t.Cleanup(closeTab)
	b := &browser{tab: tab}
	b.do(t) // opens the tab
	if err := chromedp.Listen(tab, b.listen); err != nil {
		t.Fatal(err)
	}
	b.do(t, protocol(log.Enable, cdp.Empty{}), protocol(runtime.Enable, cdp.Empty{}))
	return b
}

// listen collects whatever a developer would see in red or yellow.
func (b *browser) listen(event any) {
	var fault string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = fmt.Sprintf("%s: %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		fault = fmt.Sprintf("console.%s: %v", e.Type, e.Args)
	case *log.EventEntryAdded:
		fault = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, fault)
}

func (b *browser) faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors
}

func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.tab, steps...); err != nil {
		t.Fatal(err)
	}
}

// protocol is a command of the browser's own protocol.
func protocol[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, command, params)
		return err
	})
}

func eval[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	v, err := chromedp.Run(b.tab, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return v
}

// open loads the page and waits for the first answer of the API.
func (b *browser) open(t *testing.T, url string) {
	t.Helper()
	b.do(t, chromedp.Navigate(url))
	b.wait(t, `document.getElementById('in').textContent !== '–'`)
}

// wait waits until a condition holds, and shows the page's text if it never does.
func (b *browser) wait(t *testing.T, condition string) {
	t.Helper()
	_, err := chromedp.Run(b.tab, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(pagePatience/4), chromedp.WithPollingInterval(50*time.Millisecond)))
	if err != nil {
		t.Fatalf("%s: %v; the page shows:\n%s", condition, err, eval[string](t, b, `document.body.innerText`))
	}
}

// look sets the window's width and the system's colours.
func (b *browser) look(t *testing.T, scheme string, width int64) {
	t.Helper()
	b.do(t,
		protocol(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}),
		protocol(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500}))
	if dark := eval[bool](t, b, `getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] < 128`); dark != (scheme == "dark") {
		t.Errorf("the background does not follow the scheme %q", scheme)
	}
}

// screenshot writes a picture to a file of the project.
func (b *browser) screenshot(t *testing.T, file string, shot chromedp.Action[[]byte]) {
	t.Helper()
	png, err := chromedp.Run(b.tab, shot)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join("..", "..", filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		t.Fatal(err)
	}
}
