"""The style sheet of reports: light or dark as the reader's screen is, in one column if that is narrow."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{--back:#f7f6f3;--card:#fff;--ink:#22252b;--soft:#646a75;--rule:#dcdad4;--warn:#a4350f;--warnback:#fdeee7;
--c0:#2563a8;--c1:#d1622b;--c2:#2f8a5b;--c3:#8a4fa3;--c4:#b8860b;--c5:#5b6b7a}
@media(prefers-color-scheme:dark){:root{--back:#15171b;--card:#1e2127;--ink:#e6e7ea;--soft:#a0a6b1;--rule:#353a43;
--warn:#ffb08a;--warnback:#3a251b;--c0:#6aa9e9;--c1:#f0915c;--c2:#63c08f;--c3:#c08bd8;--c4:#e0b84a;--c5:#9aa9b8}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI","DejaVu Sans",sans-serif}
main{max-width:1360px;margin:0 auto;padding:24px}
header{border-bottom:3px solid var(--c0);margin-bottom:20px}
h1{margin:0;font-size:26px}h2{margin:28px 0 12px;font-size:20px;overflow-wrap:anywhere}
h3{margin:24px 0 8px;font-size:16px}
h4{margin:16px 0 6px;font-size:14px}header p{margin:2px 0 12px;color:var(--soft)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin-bottom:12px}
.tiles div{background:var(--card);border:1px solid var(--rule);border-radius:6px;padding:8px 14px;min-width:110px}
.tiles b{display:block;font-size:19px}.tiles span{color:var(--soft);font-size:13px}
.findings{background:var(--warnback);border-left:4px solid var(--warn);margin:0 0 14px;padding:10px 12px 10px 30px;
border-radius:0 6px 6px 0;overflow-wrap:anywhere}
.fine{color:var(--c2)}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,520px),1fr));gap:14px}
figure{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:6px;padding:12px 14px}
figcaption{font-weight:600;margin-bottom:6px}figure p{margin:6px 0 0;color:var(--soft);font-size:13px}
figure .nothing{padding:30px 0;text-align:center}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--ink);font-size:12px}svg .mark{fill:var(--soft);font-size:11px}
svg .axis{fill:var(--soft);font-size:12px;font-style:italic}
.grid{stroke:var(--rule);stroke-width:1}.tick{stroke:var(--soft)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
rect.s0,.dot.s0{fill:var(--c0)}rect.s1,.dot.s1{fill:var(--c1)}rect.s2,.dot.s2{fill:var(--c2)}
rect.s3,.dot.s3{fill:var(--c3)}rect.s4,.dot.s4{fill:var(--c4)}rect.s5,.dot.s5{fill:var(--c5)}
.line.s0{stroke:var(--c0)}.line.s1{stroke:var(--c1)}.line.s2{stroke:var(--c2)}
.line.s3{stroke:var(--c3)}.line.s4{stroke:var(--c4)}.line.s5{stroke:var(--c5)}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;color:var(--soft);padding-left:8px}
.legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px;vertical-align:-1px}
.legend .s0{background:var(--c0)}.legend .s1{background:var(--c1)}.legend .s2{background:var(--c2)}
.legend .s3{background:var(--c3)}.legend .s4{background:var(--c4)}.legend .s5{background:var(--c5)}
.wide{overflow-x:auto}
table{border-collapse:collapse;background:var(--card);font-size:13px}
th,td{border:1px solid var(--rule);padding:4px 9px;text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:600}td:first-child code{font-size:12px}
footer{margin:30px 0 10px;color:var(--soft);font-size:13px}
@media print{body{background:#fff}figure{break-inside:avoid}}
"""
