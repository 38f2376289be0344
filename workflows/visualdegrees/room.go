package visualdegrees

import (
	"slices"

	"pawl/internal/codec"
	"pawl/ports/faces"
	"pawl/ports/imagesearch"
)

// mostEvent is how many bytes an event may have here; the engine takes 256 KiB, and ends a run that has more to tell.
const mostEvent = 250 << 10

// fit is the fullest of the events that has room: it leaves out photographs of each edge first, the worst of them, and then addresses, the
// longest. All of them have been told, or are in the output.
func fit[E any](event func(photos, address int) E) E {
	for photos, address := mostEvidence, imagesearch.MaxURL; ; {
		e := event(photos, address)
		if raw, err := codec.Encode(e); err != nil || len(raw) <= mostEvent || address == 0 {
			return e
		}
		if photos > 1 {
			photos--
		} else {
			address /= 2
		}
	}
}

// of is a photograph as it is told for the sake of some people: their faces first, and of the others a few.
func (p Photo) of(ids ...string) Photo {
	all := p
	p.Faces, p.IDs = nil, nil
	show := func(i int) {
		f := all.Faces[i]
		p.Faces, p.IDs = append(p.Faces, faces.Face{Name: f.Name, Confidence: f.Confidence, Box: f.Box}), append(p.IDs, all.IDs[i])
	}
	for _, id := range ids {
		if i := all.surest(id); i >= 0 {
			show(i)
		}
	}
	most := len(p.Faces) + mostOthers
	for i, id := range all.IDs {
		if len(p.Faces) < most && !slices.Contains(ids, id) {
			show(i)
		}
	}
	return p
}

// surest is the face by which a person counts; -1: there is none.
func (p Photo) surest(id string) int {
	best := -1
	for i, f := range p.Faces {
		if p.IDs[i] == id && (best < 0 || f.Confidence > p.Faces[best].Confidence) {
			best = i
		}
	}
	return best
}

// within is an edge with some of its photographs, and addresses of a length.
func (e Edge) within(photos, address int) Edge {
	e.BestEvidence.fit(address)
	e.Evidence = slices.Clone(first(e.Evidence, photos))
	for i := range e.Evidence {
		e.Evidence[i].fit(address)
	}
	return e
}

func (v *Evidence) fit(address int) { drop(address, &v.ImageURL, &v.ThumbnailURL, &v.ContextURL) }

func drop(longer int, addresses ...*string) {
	for _, a := range addresses {
		if len(*a) > longer {
			*a = ""
		}
	}
}

// within is what is told of an output: without the decisions, with some of each edge's photographs, and addresses of a length.
func (o Output) within(photos, address int) Output {
	o.Decisions = nil
	o.Edges = slices.Clone(o.Edges)
	for i, e := range o.Edges {
		o.Edges[i] = e.within(photos, address)
	}
	g := Picture{Nodes: o.Graph.Nodes, Edges: slices.Clone(o.Graph.Edges)}
	for i, e := range g.Edges {
		g.Edges[i].EvidenceRefs = first(e.EvidenceRefs, photos)
	}
	for _, v := range o.Graph.Evidence {
		if slices.ContainsFunc(g.Edges, func(e PictureEdge) bool { return slices.Contains(e.EvidenceRefs, v.ID) }) {
			drop(address, &v.ImageURL, &v.ThumbnailURL, &v.ContextURL)
			g.Evidence = append(g.Evidence, v)
		}
	}
	o.Graph = &g
	return o
}
