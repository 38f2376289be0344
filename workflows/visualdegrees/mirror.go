package visualdegrees

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"pawl"
	"pawl/ports/kv"
)

const (
	mirrorFor    = 20 * time.Minute // R-000-69: 10 to 30
	mirrorWithin = 5 * time.Second  // that a visit waits for it
	mirrorRest   = 5 * time.Second  // that it is left alone for, at least, when it has failed
	mirrorShare  = 10               // one part in ten of the time is its
)

// copied is how a copy went, as it is recorded.
type copied struct {
	Failed string `json:"failed,omitempty"` // the code of what went wrong first
	Took   int64  `json:"took"`             // milliseconds
}

// mirror copies what a node has changed to the outside (R-000-63 to R-000-69), and all of it before half the time of the last whole copy is
// over, as a visit is far shorter: no key ends before the others. The run's own record stays the source of truth, so a copy that cannot be
// made is noted, changes nothing, and the next one is whole again.
func (a Agent) mirror(ctx context.Context, was State, s *State) error {
	if a.Mirror == nil {
		return nil
	}
	if !s.mayMirror() {
		s.Mirrored = 0
		return nil
	}
	in, ttl := pawl.Info(ctx), cmp.Or(a.MirrorFor, mirrorFor)
	now := s.keys(in.Run, in.Node)
	if whole := s.At - s.Mirrored; whole < ttl.Milliseconds()/2 {
		old := was.keys(in.Run, "")
		maps.DeleteFunc(now, func(k string, v []byte) bool { return bytes.Equal(old[k], v) })
	} else {
		s.Mirrored = s.At
	}
	within := min(mirrorWithin, s.within(s.spare()/2))
	got, err := pawl.Do(ctx, "mirror", func(ctx context.Context) (copied, error) { return a.copy(ctx, now, ttl) }, pawl.CallOptions{Timeout: within})
	if err != nil && pawl.Coded(err).Code == pawl.CodeTimeout {
		got, err = copied{pawl.CodeTimeout, within.Milliseconds()}, nil
	}
	s.MirrorTook += got.Took
	if err != nil || got.Failed == "" {
		return err
	}
	s.Mirrored = 0
	s.MirrorTook += mirrorRest.Milliseconds() / mirrorShare
	return pawl.Note(ctx, "not_mirrored", map[string]string{"code": got.Failed})
}

// mayMirror reports whether there is time for a copy: the copies take no more than their share of what is over of the run, but for the
// first, and for the one that tells how the search ended, when no search has to wait for it.
func (s *State) mayMirror() bool {
	ended := s.Stop != "" || len(s.Path) > 1 && s.Path[0] == s.In.PersonA && s.Path[len(s.Path)-1] == s.In.PersonB
	return ended || s.MirrorTook*mirrorShare <= s.Runtime-s.TimeLeft
}

// copy writes each key, also where another one could not be written.
func (a Agent) copy(ctx context.Context, keys map[string][]byte, ttl time.Duration) (c copied, err error) {
	began := pawl.Now(ctx)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		err := a.Mirror.Put(ctx, k, keys[k], ttl)
		if err != nil && ctx.Err() != nil {
			return c, err
		}
		if err != nil && c.Failed == "" {
			c.Failed = pawl.Coded(err).Code
		}
	}
	c.Took = pawl.Now(ctx).Sub(began).Milliseconds()
	return c, nil
}

// keys are what outside readers see of a state, when a node has left it so.
func (s *State) keys(run, node string) map[string][]byte {
	if s.Started == 0 {
		return nil
	}
	out := map[string][]byte{}
	prefix := "vd:" + escaped(cmp.Or(s.In.SessionID, run)) + ":" + run + ":"
	put := func(key string, v any) {
		if raw, err := json.Marshal(v); err == nil {
			out[short(prefix+key)] = raw
		}
	}
	t := s.ties()
	failed := map[string][]string{}
	for _, p := range s.Failed {
		from := s.name(t, p.From)
		failed[from] = append(failed[from], s.name(t, p.To))
	}
	seen := []string{}
	for _, p := range s.Photos {
		seen = append(seen, p.ImageURL)
	}
	put("meta", map[string]any{
		"personA": s.In.PersonA, "personB": s.In.PersonB, "startedAt": time.UnixMilli(s.Started).UTC(), "hopLimit": s.In.Options.HopLimit,
		"threshold": s.In.Options.ConfidenceThreshold, "budgets": s.Caps, "runId": run, "state": node, "hopDepth": s.Hop,
		"frontier": s.name(t, s.Frontier), "failed": failed, "used": s.Spent, "stop": s.Stop,
	})
	put("seen:queries", s.Asked)
	put("seen:images", seen)
	put("path", s.Path)
	put("decisions", s.Decisions)
	for side := range s.Known {
		for _, m := range s.Known[side] {
			if len(t.of[m.Person]) > 0 {
				put("candidates:"+escaped(s.name(t, m.Person)), s.seenBeside(t, m.Person))
			}
		}
	}
	for _, p := range s.Told {
		from, to := p.From, p.To
		if from > to { // an edge has no direction (Q-000-11)
			from, to = to, from
		}
		e := s.edge(t, from, to)
		put("edge:"+escaped(e.From)+":"+escaped(e.To), map[string]any{"edgeConf": e.EdgeConfidence, "evidence": e.Evidence})
	}
	return out
}

type candidate struct {
	Count        int      `json:"count"`
	BestConf     float64  `json:"bestConf"`
	EvidenceRefs []string `json:"evidenceRefs"`
}

// seenBeside is R-000-27.
func (s *State) seenBeside(t *ties, frontier string) map[string]candidate {
	out := map[string]candidate{}
	for _, id := range t.beside(frontier) {
		c := candidate{Count: len(t.between(frontier, id).photos), BestConf: t.between(frontier, id).conf}
		for _, i := range t.between(frontier, id).photos {
			c.EvidenceRefs = append(c.EvidenceRefs, t.photos[i].ImageURL)
		}
		out[s.name(t, id)] = c
	}
	return out
}

// escaped is a name inside a key, whose parts colons separate.
func escaped(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") }

// short keeps a key within what every store takes.
func short(key string) string {
	if len(key) <= kv.MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return key[:kv.MaxKey-65] + ":" + hex.EncodeToString(sum[:])
}
