package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"pawl/ports/llm"
	"pawl/workflows/visualdegrees"
)

// The labels by which a run remembers what it was begun with.
const (
	labelAlbum  = ownLabels + "album"
	labelSource = ownLabels + "source"
)

const sourceAlbum = "album"

// VisualDegrees wires the workflow visualdegrees.
func VisualDegrees() Workflow {
	return Workflow{
		Name: visualdegrees.Name,
		Options: []Option{
			{Name: "album", Value: "FILE", Usage: "photographs and who is in them, CSV or JSON lines (default: those that are built in, where no source is configured under search)"},
			{Name: "model", Value: "NAME", Usage: "model that plans, an alias or PROVIDER/MODEL (default: none, the built-in rules do)"},
			{Name: "mirror-ttl", Value: "DURATION", Usage: "how long outside readers find what a run knows, where kv.store is configured: 10m to 30m", Default: "20m"},
		},
		Open: openVisualDegrees,
	}
}

func openVisualDegrees(ctx context.Context, o Opening) (*Opened, error) {
	out := &Opened{Labels: map[string]string{}, Render: renderVisualDegrees, Tell: tellVisualDegrees}
	a, err := degreesAgent(ctx, o, out.Labels)
	if err != nil {
		return nil, err
	}
	model, err := degreesModel(o)
	if err != nil {
		return nil, err
	}
	if model != "" {
		out.Labels[labelModel] = model
		a.Model = func() (llm.Model, error) { return o.exactly(model) }
	}
	if a.MirrorFor, err = time.ParseDuration(o.Value("mirror-ttl")); err != nil || a.MirrorFor < 10*time.Minute || a.MirrorFor > 30*time.Minute {
		return nil, invalid("visualdegrees: mirror-ttl: want 10m to 30m, not %s", shortened(o.Value("mirror-ttl")))
	}
	if a.Mirror, err = o.KV(ctx); err != nil {
		return nil, err
	}
	if a.Mirror != nil {
		out.Close = a.Mirror.Close
	}
	if out.Workflow, err = visualdegrees.Graph(a).Build(); err != nil && out.Close != nil {
		_ = out.Close()
	}
	return out, err
}

func degreesModel(o Opening) (string, error) {
	name := o.Value("model")
	if o.Run != nil && !o.Flag("model") {
		return o.Run.Labels[labelModel], nil
	}
	return name, o.conf.known(name)
}

// degreesAgent is the agent with its eyes: an album in the place of the world, or a source of pictures with a recognizer. One of each
// never meet: an album knows nothing of what others find.
func degreesAgent(ctx context.Context, o Opening, labels map[string]string) (a visualdegrees.Agent, err error) {
	source, file, err := degreesSource(ctx, o)
	if err != nil {
		return a, err
	}
	labels[labelSource] = source
	if source == sourceAlbum {
		if file != "" {
			file = absolute(file)
			labels[labelAlbum] = file
		}
		al, err := o.Album(file)
		if err != nil {
			return a, err
		}
		return visualdegrees.Agent{Search: al.Searcher, Fetch: al.Fetcher, Faces: al.Recognizer}, nil
	}
	searcher, err := o.Searcher()
	if err != nil {
		return a, err
	}
	if searcher == nil || searcher.Name() != source {
		return a, unset("this run searches with %s: configure search.source", source)
	}
	recognizer, err := o.Recognizer(ctx)
	switch {
	case err != nil:
		return a, err
	case recognizer == nil:
		return a, unset("visualdegrees: %s searches, and nobody recognizes: configure faces.source", source)
	case recognizer.Name() == sourceAlbum:
		return a, invalid("visualdegrees: %s searches and the album recognizes: an album knows nobody in the pictures that %s finds", source, source)
	}
	return visualdegrees.Agent{Search: searcher, Fetch: o.Fetcher(), Faces: recognizer}, nil
}

// degreesSource is who searches, and the file of an album. What a run was begun with decides first, then an album that is given, which
// needs nothing of what else is configured, then the configured source.
func degreesSource(ctx context.Context, o Opening) (source, file string, err error) {
	if o.Run != nil && !o.Flag("album") && o.Run.Labels[labelSource] != "" {
		return o.Run.Labels[labelSource], o.Run.Labels[labelAlbum], nil
	}
	if file = o.Value("album"); file != "" {
		if named := o.conf.value("search.source"); named != "" && named != sourceAlbum && !o.Flag("album") {
			return "", "", invalid("visualdegrees: %s searches, and an album gives photographs that it does not find: leave one of them out", named)
		}
		return sourceAlbum, file, nil
	}
	searcher, err := o.Searcher()
	if err != nil {
		return "", "", err
	}
	if searcher != nil && searcher.Name() != sourceAlbum {
		return searcher.Name(), "", nil
	}
	recognizer, err := o.Recognizer(ctx)
	if err == nil && recognizer != nil && recognizer.Name() != sourceAlbum {
		err = invalid("visualdegrees: the album searches and %s recognizes: an album holds no pictures to look at. Configure a source (search.source)", recognizer.Name())
	}
	return sourceAlbum, "", err
}

// tellVisualDegrees is what an event of a search says to people.
func tellVisualDegrees(typ string, data json.RawMessage) string {
	var e struct {
		visualdegrees.StatusEvent
		Edge   visualdegrees.Edge
		Path   []string
		Result struct{ Message, Summary string }
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return ""
	}
	switch typ {
	case visualdegrees.EventStatus:
		if e.Meta.Source != "" {
			return e.Message + " In the " + e.Meta.Source + "."
		}
		return e.Message
	case visualdegrees.EventEvidence:
		return fmt.Sprintf("proven: %s – %s, %s: %s", e.Edge.From, e.Edge.To, percent(e.Edge.EdgeConfidence, e.Edge.Documented), e.Edge.BestEvidence.Title)
	case visualdegrees.EventPath:
		return "path: " + strings.Join(e.Path, " – ")
	case visualdegrees.EventFinal:
		return "found: " + e.Result.Summary
	case visualdegrees.EventNoPath:
		return e.Result.Message
	}
	return ""
}

// renderVisualDegrees writes an output for people.
func renderVisualDegrees(w io.Writer, raw json.RawMessage) error {
	var o visualdegrees.Output
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("visualdegrees: output: %w", err)
	}
	var b strings.Builder
	for i, e := range o.Edges {
		if i == 0 {
			fmt.Fprintf(&b, "%s\n", e.From)
		}
		best := e.BestEvidence
		fmt.Fprintf(&b, "  │ %s\n  │ %s", oneLine(best.Title, 200), oneLine(best.ContextURL, 300))
		if best.ImageURL != best.ContextURL {
			fmt.Fprintf(&b, "  (picture: %s)", oneLine(best.ImageURL, 300))
		}
		fmt.Fprintf(&b, "\n  │ confidence %s%s\n%s\n", percent(e.EdgeConfidence, best.Documented), more(e.ValidEvidenceCount-1), e.To)
	}
	if o.Confidence != nil {
		fmt.Fprintf(&b, "\n%d edges  weakest %s  product %s\n", len(o.Edges), percent(o.Confidence.PathBottleneck, allDocumented(o.Edges)), strconv.FormatFloat(o.Confidence.PathCumulative, 'f', -1, 64))
	}
	if o.Message != "" {
		fmt.Fprintf(&b, "%s\nreason %s  longest chain %d\n", o.Message, o.Reason, o.Meta.Hops)
	}
	m := o.Meta
	fmt.Fprintf(&b, "calls  search %d/%d  recognition %d/%d  llm %d/%d  source %s\n", m.Budgets.Search, m.Caps.Search, m.Budgets.Recognition, m.Caps.Recognition, m.Budgets.Model, m.Caps.Model, m.Source)
	if o.Disclaimer != "" {
		b.WriteString(o.Disclaimer + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func percent(c float64, documented bool) string {
	if documented {
		return "documented"
	}
	return strconv.FormatFloat(c, 'f', -1, 64) + " %"
}

func allDocumented(edges []visualdegrees.Edge) bool {
	for _, e := range edges {
		if !e.Documented {
			return false
		}
	}
	return true
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("  (and %d more)", n)
}
