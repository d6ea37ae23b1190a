"""The colours of clusters, wherever they are drawn.

The twenty colours were chosen by search, by their distance in CIEDE2000 (2 is just noticeable beside each other).
Every two of the first ten differ by more than 18 as seen with normal vision, and by more than 9.5 without red, green
or blue cones; of all twenty by more than 11 and 8. That is enough to tell twenty clusters apart where they lie side by
side; to find one among twenty again, hover its name in the legend, which also dims all others. None is so light or so
dark that it would vanish on a white or a dark page. The first four are close to those of Okabe and Ito.
"""

from __future__ import annotations

DISTINCT = (
    "#0077bb",
    "#ee9900",
    "#009977",
    "#cc77aa",
    "#ff0066",
    "#55bbee",
    "#996600",
    "#aa1177",
    "#bbcc99",
    "#336644",
    "#eeaabb",
    "#cc7722",
    "#7788ff",
    "#6611ff",
    "#bb1144",
    "#55ee66",
    "#dd11aa",
    "#996688",
    "#99dddd",
    "#bbaa66",
)
