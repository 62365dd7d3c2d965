"""Real frames of the shop's corridor whose truth was drawn by hand, looking at them.

Nothing was chosen on them. They are judged in a window that leaves out the far end,
where people are a few pixels, and the glass on the left, which mirrors them.
"""

from pathlib import Path

import cv2
import numpy as np
from video_scenes import Scene, load

WINDOW = (slice(33, 144), slice(42, 130))
CORNER, SCALE = 20, 8  # outlines were drawn on an enlargement: x = 20 + px / 8
OUTLINES = {
    44: (
        "455,475 458,420 475,402 500,402 515,425 525,470 540,490 555,540 560,600 "
        "600,640 598,658 565,655 548,640 535,650 528,700 520,750 512,805 508,830 "
        "510,900 470,900 462,830 470,800 455,740 452,650 448,620 440,630 418,625 "
        "415,560 425,505 445,485",
        "193,104 240,104 236,155 215,158 195,130",
        "295,104 335,104 325,160 303,160",
    ),
    84: (
        "250,118 270,113 290,140 300,160 313,205 312,255 298,290 303,340 283,352 "
        "278,408 240,408 238,345 222,335 238,260 228,230 230,175 245,150",
        "390,120 410,115 425,150 450,170 458,230 448,290 445,348 432,352 425,410 "
        "400,412 392,405 368,408 372,345 370,250 355,235 358,190 380,160",
    ),
    124: (
        "265,250 295,240 320,260 335,300 340,330 360,360 345,430 335,430 338,525 "
        "318,535 315,600 265,605 262,535 242,528 245,450 230,400 240,320 248,290",
        "470,250 505,250 515,280 555,285 560,360 545,420 545,530 525,540 520,615 "
        "495,612 483,560 460,600 445,595 462,545 445,500 450,400 418,390 425,310 "
        "470,285",
        "185,108 212,104 225,140 248,170 252,195 245,235 230,300 215,360 208,378 "
        "172,380 190,345 190,240 172,225 175,170",
        "505,110 535,108 548,135 545,155 560,180 558,285 515,280 510,250 470,250 "
        "465,180 500,155",
    ),
}


def hand_scene(footage: Path) -> Scene:
    """Return the shop with its hand-made truth."""
    frames = load(footage / "shop.avi")[..., 1]
    truth = np.zeros(frames.shape, bool)
    for number, outlines in OUTLINES.items():
        for outline in outlines:
            points = np.array([[*map(float, p.split(","))] for p in outline.split()])
            drawn = np.zeros(frames.shape[1:], np.uint8)
            fixed = np.rint((CORNER + points / SCALE - 0.5) * 16).astype(np.int32)
            cv2.fillPoly(drawn, [fixed], 1, shift=4)
            truth[number] |= drawn.astype(bool)
    return Scene("shop, by hand", frames, truth, np.array(sorted(OUTLINES)), WINDOW)
