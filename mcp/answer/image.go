package answer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	maxSaved     = 4       // artifact images in an answer, of each run
	maxSavedSize = 1 << 20 // bytes of one
	maxSide      = 8000    // pixels: model APIs refuse a whole conversation with a larger image
)

// addImage adds an image to the content, and returns a note about it or the reason for leaving it out. room is the
// number of base64 bytes left.
func (t *runReport) addImage(mime, data string, room *int) string {
	data = strings.Join(strings.Fields(data), "")
	size := Size(int64(len(data)) / 4 * 3)
	if len(data) > min(MaxImage, *room) {
		return fmt.Sprintf("[%s of %s, too large to show: save it to a file and fetch that with get_artifacts]", mime, size)
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err == nil {
		err = checkImage(mime, raw)
	}
	if err != nil {
		return fmt.Sprintf("[%s of %s, not shown: %v]", mime, size, err)
	}
	*room -= len(data)
	t.extra = append(t.extra, mcp.NewImageContent(data, mime))
	return fmt.Sprintf("[%s of %s]", mime, size)
}

// checkImage returns an error for data that a model API would refuse: another type than declared, truncated, or too
// large.
func checkImage(mime string, data []byte) (err error) {
	var c image.Config
	end := "\xff\xd9"
	if mime == "image/png" {
		c, err = png.DecodeConfig(bytes.NewReader(data))
		end = "IEND\xaeB`\x82"
	} else {
		c, err = jpeg.DecodeConfig(bytes.NewReader(data))
	}
	switch {
	case err != nil:
		return fmt.Errorf("not %s", mime)
	case c.Width == 0 || c.Height == 0 || c.Width > maxSide || c.Height > maxSide:
		return fmt.Errorf("%d x %d pixels; the maximum is %d per side", c.Width, c.Height, maxSide)
	case !bytes.Contains(data[max(0, len(data)-1024):], []byte(end)):
		return fmt.Errorf("truncated")
	}
	return nil
}

// addSavedImages adds the small images among the artifacts, and returns their names, including those of images that a
// display has already added.
func (t *runReport) addSavedImages() (names []string) {
	room := maxImages
	there := map[string]bool{}
	for _, c := range t.extra {
		if i, ok := c.(mcp.ImageContent); ok {
			there[i.Data] = true
			room -= len(i.Data)
		}
	}
	for _, a := range t.res.Artifacts {
		if len(names) == maxSaved {
			break
		}
		if a.MIME != "image/png" && a.MIME != "image/jpeg" || a.Withheld != "" || a.Size > maxSavedSize {
			continue
		}
		part, err := t.s.Results.Read(t.res.ID, "files/"+a.Name, 0, maxSavedSize)
		data := base64.StdEncoding.EncodeToString(part.Data)
		if err != nil || there[data] || int64(len(part.Data)) != a.Size || checkImage(a.MIME, part.Data) != nil || len(data) > room {
			continue
		}
		there[data] = true
		t.addImage(a.MIME, data, &room)
		names = append(names, a.Name)
	}
	return names
}
