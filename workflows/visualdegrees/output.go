package visualdegrees

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"pawl"
)

// Output is what a run has found, and its names those of the requirements.
type Output struct {
	Status  string `json:"status"` // success or no_path
	PersonA string `json:"personA"`
	PersonB string `json:"personB"`

	Path          []string       `json:"path,omitempty"`
	Edges         []Edge         `json:"edges,omitempty"`
	ConfidenceMap *ConfidenceMap `json:"confidenceMap,omitempty"`
	Confidence    *Confidence    `json:"confidence,omitempty"` // the same, by the names of the contract (Q-000-06)
	Graph         *Picture       `json:"graph,omitempty"`
	Summary       string         `json:"summary,omitempty"`
	Disclaimer    string         `json:"disclaimer,omitempty"`

	Reason  string `json:"reason,omitempty"` // hop_limit, budget:<meter>, frontier_exhausted or runtime
	Message string `json:"message,omitempty"`
	Meta    Meta   `json:"meta"`

	Decisions []Decision `json:"decisions,omitempty"`
}

// Confidence is how sure a path is: its weakest edge, in percent, and the product of all, 0 to 1 (R-000-51, R-000-52).
type Confidence struct {
	PathBottleneck float64 `json:"pathBottleneck"`
	PathCumulative float64 `json:"pathCumulative"`
}

// ConfidenceMap also has each edge, by "A|B".
type ConfidenceMap struct {
	Edges map[string]float64 `json:"edges"`
	Confidence
}

// Picture is the path as a graph.
type Picture struct {
	Nodes    []PictureNode     `json:"nodes"`
	Edges    []PictureEdge     `json:"edges"`
	Evidence []PictureEvidence `json:"evidence"`
}

// PictureNode is a person.
type PictureNode struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// PictureEdge is a verified edge and its photographs.
type PictureEdge struct {
	ID             string   `json:"id"`
	From           string   `json:"from"`
	To             string   `json:"to"`
	EdgeConfidence float64  `json:"edgeConfidence"`
	EvidenceRefs   []string `json:"evidenceRefs"`
}

// PictureEvidence is a photograph.
type PictureEvidence struct {
	ID           string `json:"id"`
	ImageURL     string `json:"imageUrl"`
	ThumbnailURL string `json:"thumbnailUrl,omitempty"`
	ContextURL   string `json:"contextUrl"`
	Title        string `json:"title"`
}

// Meta is how the search went.
type Meta struct {
	Hops                int     `json:"hops"` // edges of the path, or of the longest chain that was tried (R-000-57)
	HopLimit            int     `json:"hopLimit"`
	ConfidenceThreshold float64 `json:"confidenceThreshold"`
	Source              string  `json:"source"`
	Budgets             Used    `json:"budgets"`
	Caps                Used    `json:"caps"`
	Photographs         int     `json:"photographs"` // that were looked at
}

// Disclaimer goes with every path (S-000-02).
const Disclaimer = "The path says that each two neighbors appear together in a public photograph. It does not say that they know each other."

func meta(s State) Meta {
	return Meta{
		HopLimit: s.In.Options.HopLimit, ConfidenceThreshold: s.In.Options.ConfidenceThreshold, Source: s.Source,
		Budgets: s.Spent, Caps: s.Caps, Photographs: len(s.Photos) - s.Unseen,
	}
}

func finish(s State, e pawl.Ending) (Output, error) {
	if e.Terminal == "S6" {
		return success(s), nil
	}
	return failure(s), nil
}

// success is the path that was shown, with what the stored photographs prove of each of its edges.
func success(s State) Output {
	t := s.ties()
	way := ids(s.Path)
	out := Output{
		Status: "success", PersonA: s.In.PersonA, PersonB: s.In.PersonB, Path: s.Path,
		ConfidenceMap: &ConfidenceMap{Edges: map[string]float64{}}, Graph: &Picture{}, Disclaimer: Disclaimer, Meta: meta(s), Decisions: s.Decisions,
	}
	out.Meta.Hops = len(way) - 1
	for i, name := range out.Path {
		out.Graph.Nodes = append(out.Graph.Nodes, PictureNode{fmt.Sprint("p", i+1), name})
	}
	for i := range way[1:] {
		e := s.edge(t, way[i], way[i+1])
		out.Edges = append(out.Edges, e)
		out.ConfidenceMap.Edges[e.From+"|"+e.To] = e.EdgeConfidence
		g := PictureEdge{ID: fmt.Sprint("e", i+1), From: fmt.Sprint("p", i+1), To: fmt.Sprint("p", i+2), EdgeConfidence: e.EdgeConfidence}
		for _, v := range e.Evidence {
			g.EvidenceRefs = append(g.EvidenceRefs, out.Graph.photo(v))
		}
		out.Graph.Edges = append(out.Graph.Edges, g)
	}
	out.Confidence = confidence(out.Edges)
	out.ConfidenceMap.Confidence = *out.Confidence
	out.Summary = fmt.Sprintf("%s: %s.", strings.Join(out.Path, " – "), count(len(out.Edges), "photograph"))
	return out
}

// photo is the id of a photograph in the picture.
func (g *Picture) photo(v Evidence) string {
	i := slices.IndexFunc(g.Evidence, func(p PictureEvidence) bool { return p.ImageURL == v.ImageURL })
	if i < 0 {
		i = len(g.Evidence)
		g.Evidence = append(g.Evidence, PictureEvidence{fmt.Sprint("v", i+1), v.ImageURL, v.ThumbnailURL, v.ContextURL, v.Title})
	}
	return g.Evidence[i].ID
}

// confidence multiplies decimal numbers, so that 96 % and 94 % are 0.9024 and no neighbor of it.
func confidence(edges []Edge) *Confidence {
	c := &Confidence{PathBottleneck: 100}
	product := big.NewRat(1, 1)
	for _, e := range edges {
		c.PathBottleneck = min(c.PathBottleneck, e.EdgeConfidence)
		share, ok := new(big.Rat).SetString(strconv.FormatFloat(e.EdgeConfidence, 'f', -1, 64))
		if ok {
			product.Mul(product, share.Quo(share, big.NewRat(100, 1)))
		}
	}
	c.PathCumulative, _ = product.Float64()
	return c
}

// failure says honestly what was tried, and suggests nothing (R-000-57 to R-000-59).
func failure(s State) Output {
	out := Output{Status: "no_path", PersonA: s.In.PersonA, PersonB: s.In.PersonB, Reason: s.Stop, Message: sentence(s), Meta: meta(s), Decisions: s.Decisions}
	t := s.ties()
	for side, known := range s.Known {
		r := t.reach(s.root(side), s.In.Options.HopLimit)
		for _, m := range known {
			out.Meta.Hops = max(out.Meta.Hops, r.depth[m.Person])
		}
	}
	return out
}

// sentence is R-000-60 with the run's own numbers, and why.
func sentence(s State) string {
	c := s.In.Options
	text := fmt.Sprintf("No verified visual connection found within %s at ≥%s%% confidence", count(c.HopLimit, "degree"), strconv.FormatFloat(c.ConfidenceThreshold, 'f', -1, 64))
	why := map[string]string{
		ReasonHops:                      "every chain reached the limit of its length",
		ReasonFrontier:                  "nobody else was seen to go on to",
		ReasonRuntime:                   "the time of the run is over",
		reasonBudget + MeterSearch:      "the searches of the run are spent",
		reasonBudget + MeterRecognition: "the recognitions of the run are spent",
		reasonBudget + MeterModel:       "the model's calls of the run are spent",
		reasonBudget + meterExpansion:   "the steps of the run are spent",
		reasonBudget + pawl.MeterUSD:    "the money of the run is spent",
	}[s.Stop]
	if why == "" {
		return text + "."
	}
	return text + ": " + why + "."
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
