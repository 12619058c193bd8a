package app

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/sink/rowfile"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// WriteFile is WriteOutput for a path that is no "-", with an error that names no file.
func WriteFile(path string, write func(io.Writer) error) error {
	mode, exists := fs.FileMode(0o666), false
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return withoutPath(err)
	case info.IsDir():
		return errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return writeThrough(path, write)
	default:
		mode, exists = info.Mode().Perm(), true
	}
	path = behind(path)
	// Not os.CreateTemp: the umask decides who may read a new file, from its first byte on.
	tmp, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".lca-stream-"+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return withoutPath(err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if exists { // its own mode stays, whatever the umask
		err = tmp.Chmod(mode)
	}
	if err := errors.Join(err, write(tmp), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return withoutPath(os.Rename(tmp.Name(), path))
}

// Writable says whether WriteFile could write a file now: what is not there, or is a file, takes one in its directory.
func Writable(path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "-" || err == nil && !info.IsDir() && !info.Mode().IsRegular():
		return nil
	case err == nil && info.IsDir():
		return fmt.Errorf("write %s: it is a directory", path)
	}
	tmp, err := os.CreateTemp(filepath.Dir(behind(path)), ".lca-stream-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, withoutPath(err))
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// behind returns the file that a symbolic link leads to, which need not be there yet.
func behind(path string) string {
	for range 40 { // as many as Linux follows
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return withoutPath(err)
	}
	return errors.Join(write(f), f.Close())
}

// withoutPath leaves out the path of an error, which is that of the temporary file or is said already.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}

// MayOverwrite refuses the output of a flag over a file that is read, and without force over any other. A pipe or a device is no regular file.
func MayOverwrite(flag, path string, read []string, force bool) (regular bool, err error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil || !info.Mode().IsRegular():
		return false, err
	}
	if err := NotRead(flag, path, read); err != nil || force {
		return true, err
	}
	return true, fmt.Errorf("%s exists already: name another file, or overwrite it with --force", path)
}

// RowOutput is MayOverwrite for an output of rows, and returns its format: that of its extension, which a pipe and standard output have not.
func RowOutput(flag, path string, read []string, force bool) (rowfile.Kind, error) {
	if path == "-" {
		return rowfile.Stream, nil
	}
	if regular, err := MayOverwrite(flag, path, read, force); err != nil || !regular {
		return rowfile.Stream, err
	}
	kind, err := rowfile.KindOf(path)
	if err != nil {
		return 0, UsageError("%s %s: %v", flag, path, err)
	}
	return kind, nil
}

// content is what a command writes to its output. A step of EM is repeated over its own files, so a model takes the place of a model, and
// sums that of sums. Any other file may be all that there is of some rows, and is overwritten only with --force.
type content string

const (
	ContentModel content = "model"
	ContentSums  content = "sums of em expect"
)

// metadataKeys lists the key by which the Arrow schema of a content is known. A model is also known by its other formats.
var metadataKeys = map[string]content{"lca.format": ContentModel, "lca.local_format": ContentModel, "lca.statistics_format": ContentSums}

// OutputFlags adds --output and --force.
func OutputFlags(c *cobra.Command, output *string, force *bool, of content, usage string) {
	c.Flags().StringVarP(output, "output", "o", "", usage)
	c.Flags().BoolVar(force, "force", false, "overwrite the file of --output, though it holds no "+string(of))
}

// MayWrite refuses an output over a file that holds something else.
func MayWrite(path string, of content, force bool) error {
	if path == "" || path == "-" || force {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() == 0: // a pipe, a device, and what mktemp has made
		return nil
	}
	is, err := contentOf(path)
	if err != nil {
		return err
	}
	if is != of {
		return fmt.Errorf("%s exists already, and holds no %s: name another file, or overwrite it with --force", path, of)
	}
	return nil
}

// otherFormats are the endings of what is no Arrow stream, such as a command that writes nothing else could be asked for.
var otherFormats = []string{".csv", ".json", ".npz", ".onnx", ".parquet", ".safetensors"}

// MayWriteStream is MayWrite for a command whose only format is an Arrow stream, which under another format's name no program could read.
func MayWriteStream(path string, of content, force bool) error {
	ending := filepath.Ext(path)
	if !slices.Contains(otherFormats, strings.ToLower(ending)) {
		return MayWrite(path, of, force)
	}
	stream := strings.TrimSuffix(path, ending) + ".arrows"
	remedy := "name it " + stream
	if f, err := FormatOf("", path); err == nil && of == ContentModel {
		remedy += fmt.Sprintf(", and make %s of it with `lca-stream snapshot export --file %s --format %s -o %s`", ending, stream, f, path)
	}
	return UsageError("--output %s would hold an Arrow stream, because this command writes nothing else: %s", path, remedy)
}

// contentOf returns what a file holds, "" if it is neither a model nor sums.
func contentOf(path string) (content, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if in, err := source.OpenPipe(path, f); err == nil {
		m := in.Schema().Metadata()
		for key, is := range metadataKeys {
			if m.FindKey(key) >= 0 {
				return is, nil
			}
		}
		return "", nil
	}
	head := make([]byte, 4096)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if snapshot.ExportedAs(head[:n]) != "" {
		return ContentModel, nil
	}
	return "", nil
}

// Unlike says of a file that could not be read what it holds instead of what it should hold.
func Unlike(path string, want content, fault error) error {
	info, err := os.Stat(path)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return fault
	case info.Size() == 0:
		return errors.New("the file is empty")
	}
	switch is, err := contentOf(path); {
	case err != nil || is == want || is == "" && want == ContentModel: // the fault of what is no model says so
		return fault
	case is == "":
		return fmt.Errorf("it holds no %s: %w", want, fault)
	case is == ContentModel:
		return fmt.Errorf("it holds a model, and no %s", want)
	default:
		return fmt.Errorf("it holds the %s, and no %s", is, want)
	}
}

// FileScreen shows how many rows have been read: on a terminal a bar, or a spinner where it is not known how many there are, elsewhere a JSON line every two
// seconds.
type FileScreen struct {
	out         io.Writer
	bar         *progressbar.ProgressBar
	Start, last time.Time
	Read, total int64 // total: 0 is not known
}

// NewFileScreen shows nothing unless standard error is a terminal.
func NewFileScreen(p *Program) *FileScreen {
	s := &FileScreen{out: p.Stderr, Start: time.Now(), last: time.Now()}
	if IsTerminal(p.Stderr) {
		s.bar = NewBar(p.Stderr, 0)
	}
	return s
}

// Says tells what is going on before the first row.
func (s *FileScreen) Says(what string) {
	if s.bar != nil {
		s.bar.Describe(what)
	}
}

// Of tells how many rows there are.
func (s *FileScreen) Of(total int64) {
	if s.total = total; s.bar != nil && total > 0 {
		s.bar.ChangeMax64(total)
	}
}

// Rows counts rows that have been read.
func (s *FileScreen) Rows(n int64) {
	s.Read += n
	seconds := time.Since(s.Start).Seconds()
	if s.bar != nil {
		s.bar.Describe(fmt.Sprintf("%d rows, %.0f/s", s.Read, float64(s.Read)/seconds))
		_ = s.bar.Set64(s.Read)
		return
	}
	if time.Since(s.last) < 2*time.Second {
		return
	}
	s.last = time.Now()
	said := map[string]any{"rows": s.Read, "rows_per_second": math.Round(float64(s.Read) / seconds), "seconds": math.Round(seconds)}
	if s.total > 0 {
		said["of"] = s.total
	}
	_ = json.NewEncoder(s.out).Encode(said)
}

// End takes the bar away.
func (s *FileScreen) End() {
	if s.bar != nil {
		_ = s.bar.Finish()
	}
}

// NewBar returns a bar to total, or a spinner if total is 0, because the number of steps of a fit to convergence is
// not known.
func NewBar(w io.Writer, total int64, more ...progressbar.Option) *progressbar.ProgressBar {
	if total == 0 {
		total = -1
	}
	return progressbar.NewOptions64(total, append(more, progressbar.OptionSetWriter(terminal.Unwrap(w)),
		progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())...)
}

// FormatOf returns the named format, or else that of the file's extension.
func FormatOf(name, file string) (snapshot.Format, error) {
	if name != "" {
		return snapshot.ParseFormat(name)
	}
	ending := strings.TrimPrefix(filepath.Ext(file), ".")
	if ending == "arrows" || ending == "" {
		return snapshot.FormatArrow, nil
	}
	f, err := snapshot.ParseFormat(ending)
	if err != nil {
		return "", fmt.Errorf("cannot tell the format from %s: set --format to one of %v", file, snapshot.Formats())
	}
	return f, nil
}

// Shortened returns all names, or of more than most the first ones and the last one.
func Shortened(names []string, most int) []string {
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most-1]), "… "+names[len(names)-1])
}

// Printable formats text for a terminal: at most 64 bytes, quoted unless it is plain.
func Printable(b []byte) string {
	short := b[:min(len(b), 64)]
	for _, c := range short {
		if c < 0x20 || c > 0x7e {
			return fmt.Sprintf("%q", short)
		}
	}
	return string(short)
}

// OtherModels lists the models that a topic has.
func OtherModels(models []string) string {
	if len(models) == 0 {
		return "the topic has none"
	}
	return fmt.Sprintf("the topic has %q", models)
}

// Finite returns nil for a number that JSON does not have.
func Finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Known formats a number that may not be known yet.
func Known(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	return fmt.Sprintf("%.4g", v)
}

// Maybe formats a number that may be missing.
func Maybe(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return Known(*v)
}

// SomeNames lists names, and how many more there are than a line takes.
func SomeNames(names []string) string {
	const most = 10
	text := strings.Join(terminal.Names(names[:min(most, len(names))]), ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// Age formats a duration for people, with two units at most.
func Age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Without returns the names that others does not have.
func Without(all, others []string) []string {
	return append([]string{}, slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(others, s) })...)
}
