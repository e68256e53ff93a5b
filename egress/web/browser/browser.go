// Package browser reads a page with a Chromium that the caller has started and contained.
//
// It speaks the DevTools protocol over a stream that leads to the browser's descriptors 3 and 4
// (--remote-debugging-pipe), so no port is open for other processes.
//
// All messages of the browser are untrusted: it runs without a sandbox of its own, so a page may control it. A message
// is bounded, is parsed into strict types, and affects only its own visit.
//
// chromedp trusts the browser: it assumes required fields (a Page.frameNavigated without a frame crashes the process),
// reads messages of any length, and mirrors the whole DOM. So this package has its own connection, and names the dozen
// commands of a visit where it sends them: cdproto's types need a second JSON library.
package browser

import (
	"strings"
	"time"
)

// Visit is a request for a page.
type Visit struct {
	URL     string // http or https
	WaitFor string // a CSS selector to wait for; "" waits for the load event, and a moment for later fetches by scripts
	Picture bool
	Time    time.Duration // until the page is read in its current state
	MaxHTML int           // maximum bytes of the DOM
}

// Page is the result of a visit.
type Page struct {
	URL     string // final address, after redirects
	Status  int    // of HTTP; 0 is unknown
	Title   string
	HTML    string // the DOM when it was read
	Text    string // its visible text
	Cut     bool   // HTML or Text was truncated
	Picture []byte // PNG; nil if none was requested or possible
	Late    string // the condition that was not met in time; "" is none
	Notes   []string
}

// The size of the window, and the maximum height of a picture, in pixels.
const (
	Width, Height = 1280, 800
	MaxHeight     = 4000
	MaxPicture    = 4 << 20 // bytes of PNG: the limit of models, less a third for base64
)

// Arguments are the browser's own, for a process that finds the stream at descriptors 3 and 4. profile is a temporary
// directory that has the Settings.
func Arguments(profile string) []string {
	return []string{
		"--remote-debugging-pipe", "--headless=new", "--no-startup-window",
		// Its own sandbox needs user namespaces, which our sandbox forbids.
		"--no-sandbox", "--disable-setuid-sandbox",
		"--user-data-dir=" + profile, "--no-first-run", "--no-default-browser-check", "--incognito",
		"--disable-logging", "--log-level=3", "--disable-gpu", "--disable-software-rasterizer", "--disable-dev-shm-usage", "--mute-audio",
		"--hide-scrollbars",
		"--window-size=1280,800", "--force-color-profile=srgb", "--force-device-scale-factor=1",
		// Requests of the browser itself.
		"--disable-background-networking", "--disable-component-update", "--disable-domain-reliability", "--disable-sync",
		"--disable-client-side-phishing-detection", "--disable-default-apps", "--disable-extensions",
		"--disable-component-extensions-with-background-pages",
		"--disable-breakpad", "--disable-crash-reporter", "--no-pings", "--no-service-autorun", "--metrics-recording-only",
		"--no-proxy-server", "--disable-quic", "--dns-prefetch-disable", "--host-resolver-rules=" + hostRules(),
		"--password-store=basic", "--use-mock-keychain", "--deny-permission-prompts", "--disable-notifications", "--disable-print-preview",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--disable-hang-monitor", "--disable-ipc-flooding-protection", "--disable-field-trial-config",
		// Site isolation costs memory, and this profile has no data of other sites to protect.
		"--disable-site-isolation-trials", "--renderer-process-limit=2",
		"--disable-features=" + features,
	}
}

// features are disabled: they contact the browser vendor's servers, open dialogs, or ask for permission to connect to
// loopback, where the gateway answers for all names.
const features = "Translate,MediaRouter,OptimizationHints,OptimizationGuideModelDownloading,InterestFeedContentSuggestions,AutofillServerCommunication," +
	"CertificateTransparencyComponentUpdater,DialMediaRouteProvider,GlobalMediaControls,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,DnsOverHttps," +
	"IsolateOrigins,site-per-process,Vulkan,LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights," +
	"SpareRendererForSitePerProcess,AudioServiceOutOfProcess,PaintHolding,AcceptCHFrame,LensOverlay," +
	"UseDnsHttpsSvcb,AsyncDns,NetworkTimeServiceQuerying"

// Settings returns the files that the profile's directory must have, by name. They turn off ECH, which the gateway
// refuses, and for which browsers have no argument any more.
func Settings() map[string]string {
	return map[string]string{"Local State": `{"ssl":{"ech_enabled":false}}`}
}

// browserHosts are hosts that the browser contacts by itself with any settings, for updates and the time. They serve no
// pages.
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
