package app

import (
	"context"
	"slices"

	"pawl/internal/album"
	"pawl/internal/picture"
	"pawl/ports/faces"
	"pawl/ports/faces/rekognition"
)

// recognizerKind is one recognizer of public figures, with the settings under faces that it reads.
type recognizerKind struct {
	name  string
	takes []string
	open  func(ctx context.Context, get func(name string) string, room *picture.Room) (faces.Recognizer, error)
}

// recognizerKinds is the table of all. A new one is a folder under ports/faces and a line here.
var recognizerKinds = []recognizerKind{
	// Its key is found where Amazon's own programs find it: AWS_ACCESS_KEY_ID and the like, AWS_PROFILE, a machine's role.
	{"rekognition", []string{"region", "url"}, func(ctx context.Context, get func(string) string, room *picture.Room) (faces.Recognizer, error) {
		return rekognition.New(ctx, rekognition.Config{Region: get("region"), URL: get("url"), Room: room})
	}},
	{"album", nil, func(context.Context, func(string) string, *picture.Room) (faces.Recognizer, error) {
		return newAlbum(album.Embedded()).Recognizer, nil
	}},
}

// facesSettings are those of all recognizers, and which one is asked.
func facesSettings() []*setting {
	all := []*setting{{key: "faces.source"}}
	for _, k := range recognizerKinds {
		for _, name := range k.takes {
			all = append(all, &setting{key: "faces." + name})
		}
	}
	return all
}

// Recognizer is the recognizer of public figures that faces.source names; nil: none is. Nobody is asked yet.
func (o Opening) Recognizer(ctx context.Context) (faces.Recognizer, error) {
	return o.conf.recognizer(ctx)
}

func (c *config) recognizer(ctx context.Context) (faces.Recognizer, error) {
	name := c.value("faces.source")
	if name == "" {
		return nil, nil
	}
	var names []string
	for _, k := range recognizerKinds {
		names = append(names, k.name)
	}
	i := slices.Index(names, name)
	if i < 0 {
		return nil, invalid("faces.source: there is no recognizer %s%s", shortened(name), suggest(name, names))
	}
	return recognizerKinds[i].open(ctx, func(name string) string { return c.value("faces." + name) }, c.room)
}

// examineFaces says who recognizes public figures. Nobody is asked.
func (c *call) examineFaces(ctx context.Context) finding {
	f := finding{About: "faces", Name: "public figures", Value: "(none)"}
	r, err := c.conf.recognizer(ctx)
	switch {
	case err != nil:
		f.Fault = err.Error()
	case r != nil:
		f.Value = r.Name()
	}
	return f
}
