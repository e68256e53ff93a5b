// Package browser reads a page with a Chromium that its caller has started and contained.
//
// It speaks the DevTools protocol over a stream that leads to the browser's descriptors 3 and 4
// (--remote-debugging-pipe), so no port is open and no other process can join in.
//
// All messages of the browser are untrusted: it runs without a sandbox of its own, so a page may control it. A message
// is bounded, is parsed into strict types, and affects only its own visit.
//
// chromedp drives browsers that it trusts: its goroutines take what events must have for granted (a Page.frameNavigated
// without a frame ends the process), read messages of any length, and mirror the whole DOM. So the connection is ours,
// and the dozen commands that a visit needs are named where they are sent: cdproto's types of them bring a second JSON
// library.
package browser

import (
	"strings"
	"time"
)

// Visit is a request for a page.
type Visit struct {
	URL     string // http or https
	WaitFor string // a CSS selector to wait for; "" waits for the load event, and a moment for what scripts fetch then
	Picture bool
	Time    time.Duration // until the page is read as it is by then
	MaxHTML int           // bytes of the DOM that are kept
}

// Page is the result of a visit.
type Page struct {
	URL     string // in the end, after redirects
	Status  int    // of HTTP; 0 is unknown
	Title   string
	HTML    string // the DOM when it was read
	Text    string // what of it a person sees
	Cut     bool   // HTML and Text are the beginning of more
	Picture []byte // PNG; nil where none was asked for or could be made
	Late    string // what had not come about when time was up; "" is nothing
	Notes   []string
}

// The window, and how much of a longer page a picture shows, in pixels.
const (
	Width, Height = 1280, 800
	MaxHeight     = 4000
	MaxPicture    = 4 << 20 // bytes of PNG: models take no more, and base64 adds a third
)

// Arguments are the browser's own, for a process that finds the stream at descriptors 3 and 4. profile is
// a directory that has the Settings, and that nobody needs later.
func Arguments(profile string) []string {
	return []string{
		"--remote-debugging-pipe", "--headless=new", "--no-startup-window",
		// Its own sandbox is made of user namespaces, which programs in ours can't make.
		"--no-sandbox", "--disable-setuid-sandbox",
		"--user-data-dir=" + profile, "--no-first-run", "--no-default-browser-check", "--incognito",
		"--disable-logging", "--log-level=3", "--disable-gpu", "--disable-software-rasterizer", "--disable-dev-shm-usage", "--mute-audio", "--hide-scrollbars",
		"--window-size=1280,800", "--force-color-profile=srgb", "--force-device-scale-factor=1",
		// What would go out for the browser's own sake.
		"--disable-background-networking", "--disable-component-update", "--disable-domain-reliability", "--disable-sync",
		"--disable-client-side-phishing-detection", "--disable-default-apps", "--disable-extensions", "--disable-component-extensions-with-background-pages",
		"--disable-breakpad", "--disable-crash-reporter", "--no-pings", "--no-service-autorun", "--metrics-recording-only",
		"--no-proxy-server", "--disable-quic", "--dns-prefetch-disable", "--host-resolver-rules=" + hostRules(),
		"--password-store=basic", "--use-mock-keychain", "--deny-permission-prompts", "--disable-notifications", "--disable-print-preview",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--disable-hang-monitor", "--disable-ipc-flooding-protection", "--disable-field-trial-config",
		// A process for each site protects sites from each other, and this profile holds nothing of any; it costs memory.
		"--disable-site-isolation-trials", "--renderer-process-limit=2",
		"--disable-features=" + features,
	}
}

// features are disabled: they contact servers of the browser's maker, open dialogs, or ask a person before a page may
// connect to addresses of loopback, where the gateway answers for all names.
const features = "Translate,MediaRouter,OptimizationHints,OptimizationGuideModelDownloading,InterestFeedContentSuggestions,AutofillServerCommunication," +
	"CertificateTransparencyComponentUpdater,DialMediaRouteProvider,GlobalMediaControls,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,DnsOverHttps," +
	"IsolateOrigins,site-per-process,Vulkan,LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights," +
	"SpareRendererForSitePerProcess,AudioServiceOutOfProcess,PaintHolding,AcceptCHFrame,LensOverlay," +
	"UseDnsHttpsSvcb,AsyncDns,NetworkTimeServiceQuerying"

// Settings are files that the profile's directory must have, by name. The gateway passes on no TLS that may hide
// another name (ECH), or seems to, and browsers have no argument any more by which they leave that out.
func Settings() map[string]string {
	return map[string]string{"Local State": `{"ssl":{"ech_enabled":false}}`}
}

// browserHosts are hosts that the browser contacts by itself, whatever its settings: updates and the time. They serve no pages.
var browserHosts = []string{
	"clients2.google.com", "update.googleapis.com", "optimizationguide-pa.googleapis.com", "content-autofill.googleapis.com",
	"safebrowsing.googleapis.com", "safebrowsingohttpgateway.googleapis.com", "mtalk.google.com", "android.clients.google.com",
	"edgedl.me.gvt1.com", "redirector.gvt1.com", "clientservices.googleapis.com", "go-updater.brave.com", "variations.brave.com",
	"edge.microsoft.com", "config.edge.skype.com", "msedge.api.cdp.microsoft.com",
}

func hostRules() string {
	all := make([]string, len(browserHosts))
	for i, name := range browserHosts {
		all[i] = "MAP " + name + " ~NOTFOUND"
	}
	return strings.Join(all, ", ")
}
